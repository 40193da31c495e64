// The `tenure` command: tools/cli.c reads the command line by the table tools/commands.def and runs a tool_NAME of tools/.
//
//   tenure opt model.tir --passes=check_scopes,grad --dump-after=grad
#include "tools/cli.h"

int main(int argc, char **argv) { return cli_main(argc, argv); }
