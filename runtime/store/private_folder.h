// A folder in which nobody but the effective user can have put anything, and files in it: whatever is executed comes
// from such a place.
//
//   int folder = rt_private_folder("/home/me/.cache/tenure", why, sizeof why);
//   if (folder >= 0 && rt_private_read(folder, "x.tno", &file, why, sizeof why)) use(&file);
//
// The folder and the file belong to the effective user, and neither group nor others may write them. Folders above, and
// symbolic links on the way, belong to root or the effective user; group or others may write a folder above where it is
// sticky, as /tmp is: there nobody replaces what is another's. Everything is opened from the descriptor that was
// checked, so that nothing can be exchanged in between.
#ifndef TN_RUNTIME_STORE_PRIVATE_FOLDER_H
#define TN_RUNTIME_STORE_PRIVATE_FOLDER_H

#include "runtime/api.h"
#include "runtime/store/file.h"

// A descriptor of the folder; missing ones are made with mode 0700. -1: `why` names what is not as above.
RT_API int rt_private_folder(const char *path, char *why, size_t why_size);
// The whole file. False: there is none (`why` is empty), it cannot be read, or is not as above; links are not followed.
RT_API bool rt_private_read(int folder, const char *name, RtFile *out, char *why, size_t why_size);

#endif
