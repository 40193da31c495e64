// Non-blocking point-to-point messages, one tag. MPI keeps the order of messages between two ranks, and large ones go in pieces that
// its counts hold.
#include "mpi/tenure_mpi.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { TAG = 7, PIECE = 1 << 30 };

typedef struct {
  tn_transport transport;  // first
  MPI_Comm comm;
  MPI_Request *requests;
  int n, cap;
} Mpi;

static bool fail(char *why, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static bool fail(char *why, size_t size, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  if (size) vsnprintf(why, size, fmt, args);
  va_end(args);
  return false;
}

static bool check(int code, const char *call, char *why, size_t size) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int n = 0;
  if (code == MPI_SUCCESS) return true;
  MPI_Error_string(code, text, &n);
  return fail(why, size, "%s: %s", call, text);
}

static MPI_Request *next_request(Mpi *m) {
  if (m->n == m->cap) {
    int cap = m->cap ? 2 * m->cap : 64;
    MPI_Request *more = realloc(m->requests, (size_t)cap * sizeof *more);
    if (!more) return NULL;
    m->requests = more, m->cap = cap;
  }
  return &m->requests[m->n++];
}

static bool start(Mpi *m, const tn_message *message, bool sends, char *why, size_t size) {
  for (size_t at = 0; at < message->bytes; at += PIECE) {
    char *data = (char *)message->data + at;
    size_t left = message->bytes - at;
    int n = left < PIECE ? (int)left : PIECE, rank = (int)message->rank;
    MPI_Request *r = next_request(m);
    if (!r) return fail(why, size, "there is no memory for a request");
    int code = sends ? MPI_Isend(data, n, MPI_BYTE, rank, TAG, m->comm, r)
                     : MPI_Irecv(data, n, MPI_BYTE, rank, TAG, m->comm, r);
    if (code != MPI_SUCCESS) m->n--;
    if (!check(code, sends ? "MPI_Isend" : "MPI_Irecv", why, size)) return false;
  }
  return true;
}

static bool begin(void *ctx, const tn_message *send, size_t n_send, const tn_message *receive, size_t n_receive,
                  char *why, size_t why_size) {
  for (size_t k = 0; k < n_receive; k++)
    if (!start(ctx, &receive[k], false, why, why_size)) return false;
  for (size_t k = 0; k < n_send; k++)
    if (!start(ctx, &send[k], true, why, why_size)) return false;
  return true;
}

static bool test(void *ctx, bool *done, char *why, size_t why_size) {
  Mpi *m = ctx;
  int all = 0;
  bool good = check(MPI_Testall(m->n, m->requests, &all, MPI_STATUSES_IGNORE), "MPI_Testall", why, why_size);
  *done = all;
  if (good && all) m->n = 0;
  return good;
}

static void end(void *ctx, const char *why) {
  const Mpi *m = ctx;
  fprintf(stderr, "tenure: %s\n", why);
  fflush(stderr);
  MPI_Abort(m->comm, 1);
}

static bool is_running(char *why, size_t size) {
  int has_begun = 0, has_ended = 0;
  MPI_Initialized(&has_begun);
  if (!has_begun) return fail(why, size, "MPI has not begun: MPI_Init_thread comes first");
  MPI_Finalized(&has_ended);
  return !has_ended || fail(why, size, "MPI has ended: MPI_Finalize comes last");
}

tn_transport *tn_mpi_transport(MPI_Comm comm, char *why, size_t why_size) {
  int rank = 0, n = 0, level = MPI_THREAD_SINGLE;
  if (!is_running(why, why_size)) return NULL;
  Mpi *m = calloc(1, sizeof *m);
  if (!m) return fail(why, why_size, "there is no memory for a transport"), NULL;
  if (check(MPI_Comm_dup(comm, &m->comm), "MPI_Comm_dup", why, why_size) &&
      check(MPI_Comm_set_errhandler(m->comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler", why, why_size) &&
      check(MPI_Comm_rank(m->comm, &rank), "MPI_Comm_rank", why, why_size) &&
      check(MPI_Comm_size(m->comm, &n), "MPI_Comm_size", why, why_size) &&
      check(MPI_Query_thread(&level), "MPI_Query_thread", why, why_size)) {
    m->transport = (tn_transport){(uint32_t)rank, (uint32_t)n, m, begin, test, end, level >= MPI_THREAD_SERIALIZED};
    return &m->transport;
  }
  free(m);
  return NULL;
}

void tn_mpi_transport_free(tn_transport *t) {
  Mpi *m = (Mpi *)(void *)t;
  if (!m) return;
  MPI_Comm_free(&m->comm);
  free(m->requests);
  free(m);
}
