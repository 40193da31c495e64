// Archives and shared libraries made of a bundle's object.
#ifndef TN_FRONTEND_BUNDLE_LINK_H
#define TN_FRONTEND_BUNDLE_LINK_H

#include "codegen/bundle/facts.h"
#include "codegen/module/compile.h"

// A static library (ar) with an index of the bundle's symbols.
void fe_archive(const char *name, const CgObject *object, const TnBundle *b, bool has_workers, RtText *out);
// path.so of path.o, by the system's linker for the triple; false: why.
bool fe_link_shared(RtArena *mem, const char *path, const char *triple, RtText *why);

#endif
