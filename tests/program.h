// Included before each test program: its `main` is NAME_main for the linker, so that several programs make one binary
// (tests/programs.c).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
int main() __asm__(PROGRAM_MAIN);  // a program defines it with or without arguments
#pragma GCC diagnostic pop
