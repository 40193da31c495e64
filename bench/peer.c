// The process of a peer: questions go to its standard input, one answer line comes back for each.
#include "bench/bench.h"
#include <sys/wait.h>
#include <unistd.h>

static void close_both(const int fd[2]) {
  close(fd[0]);
  close(fd[1]);
}

bool bench_peer_start(Peer *p, char *const argv[]) {
  int to[2], from[2];
  if (pipe(to)) return false;
  if (pipe(from)) {
    close_both(to);
    return false;
  }
  p->pid = fork();
  if (p->pid == 0) {
    dup2(to[0], 0);
    dup2(from[1], 1);
    close_both(to);
    close_both(from);
    execvp(argv[0], argv);
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  p->in = fdopen(to[1], "w");
  p->out = fdopen(from[0], "r");
  return p->pid > 0 && p->in && p->out;
}

bool bench_peer_ask(Peer *p, const char *question, char *answer, int size) {
  return fprintf(p->in, "%s\n", question) > 0 && fflush(p->in) == 0 && fgets(answer, size, p->out) != NULL;
}

void bench_peer_stop(Peer *p) {
  if (p->in) fclose(p->in);
  if (p->out) fclose(p->out);
  if (p->pid > 0) waitpid(p->pid, NULL, 0);
  *p = (Peer){0};
}
