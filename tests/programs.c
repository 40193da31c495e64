// The binary of a subject: many test programs, linked once. It runs the one whose name it is called by.
#include <stdio.h>
#include <string.h>

#define PROGRAM(name) int name##_main(int argc, char **argv);
#include PROGRAMS
#undef PROGRAM

static const struct {
  const char *name;
  int (*main)(int argc, char **argv);
} programs[] = {
#define PROGRAM(name) {#name, name##_main},
#include PROGRAMS
#undef PROGRAM
};

int main(int argc, char **argv) {
  const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0];
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
    if (!strcmp(name, programs[i].name)) return programs[i].main(argc, argv);
  fprintf(stderr, "%s: none of its programs; they are called by their links:\n", name);
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) fprintf(stderr, "  %s\n", programs[i].name);
  return 2;
}
