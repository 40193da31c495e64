// The process of a peer: questions go to its standard input, one answer line comes back for each.
#define _GNU_SOURCE
#include "bench/bench.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void close_both(const int fd[2]) {
  close(fd[0]);
  close(fd[1]);
}

// Ctrl-C is for the parent; with it the peer ends.
static void become(const PeerWay *way, char *const argv[]) {
  bench_set_way(way);
  signal(SIGINT, SIG_IGN);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  execvp(argv[0], argv);
  _exit(127);
}

bool bench_peer_start(Peer *p, const PeerWay *way, char *const argv[]) {
  int to[2], from[2];
  if (pipe2(to, O_CLOEXEC)) return false;  // not for the peers that start later: each sees the end of its own
  if (pipe2(from, O_CLOEXEC)) {
    close_both(to);
    return false;
  }
  p->pid = fork();
  if (p->pid == 0) {
    dup2(to[0], 0);
    dup2(from[1], 1);
    close_both(to);
    close_both(from);
    become(way, argv);
  }
  close(to[0]);
  close(from[1]);
  p->program = argv[0];
  p->in = fdopen(to[1], "w");
  p->out = fdopen(from[0], "r");
  return p->pid > 0 && p->in && p->out;
}

bool bench_peer_ask(Peer *p, const char *question, char *answer, int size) {
  return fprintf(p->in, "%s\n", question) > 0 && fflush(p->in) == 0 && fgets(answer, size, p->out) != NULL;
}

bool bench_peer_bytes(Peer *p, double *step, double *state) {
  char line[256];
  return bench_peer_ask(p, "peak", line, sizeof line) && sscanf(line, "%lf %lf", step, state) == 2;
}

static int stop(Peer *p) {
  int status = 0;
  if (p->in) fclose(p->in);
  if (p->out) fclose(p->out);
  if (p->pid > 0) waitpid(p->pid, &status, 0);
  *p = (Peer){0};
  return status;
}

void bench_peer_stop(Peer *p) { stop(p); }

bool bench_peer_complain(Peer *p, const char *workload, const char *name) {
  const char *program = p->program;
  int status = stop(p);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    fprintf(stderr, "bench: %s: %s cannot be run: --python names a program\n", workload, program);
  else if (WIFSIGNALED(status))
    fprintf(stderr, "bench: %s: %s was ended by signal %d\n", workload, name, WTERMSIG(status));
  else
    fprintf(stderr, "bench: %s: %s gave no answer; %s ended with status %d\n", workload, name, program,
            WEXITSTATUS(status));
  return false;
}
