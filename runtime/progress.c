#include "runtime/progress.h"
#include "runtime/clock.h"
#include "runtime/format.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { MAX_LINE = 512, MAX_BAR = 30, MIN_BAR = 8, PLAIN_LINES = 10 };
static const double redraw_seconds = 0.05;

struct RtProgress {
  FILE *out;
  char what[64];
  size_t total, done, before;  // before: done when it began
  bool is_terminal;
  bool is_drawn;       // the state shown is the newest one
  bool is_line_open;   // the terminal's cursor stands in our line
  double start, last;  // seconds: the beginning, the last time that something was shown
  size_t next;         // plain lines: show when done reaches this
  char text[256];      // the user's
};

static bool is_drawable(FILE *out) {
  const char *term = getenv("TERM");
  int fd = fileno(out);
  return fd >= 0 && isatty(fd) && term && strcmp(term, "dumb") != 0;
}

static size_t line_width(FILE *out) {
  struct winsize w;
  size_t width = ioctl(fileno(out), TIOCGWINSZ, &w) == 0 && w.ws_col ? w.ws_col : 80;
  return width < MAX_LINE ? width : MAX_LINE - 1;
}

// Bytes of the longest prefix of at most `columns` characters.
static size_t clip(const char *text, size_t columns) {
  size_t n = 0;
  for (size_t c = 0; text[n] && c < columns; c++) {
    size_t len = rt_utf8_length(text + n, strnlen(text + n, 4));
    n += len ? len : 1;
  }
  return n;
}

static void add(char *line, size_t *n, const char *fmt, ...) RT_PRINTF(3, 4);
static void add(char *line, size_t *n, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  int k = rt_vformat(line + *n, MAX_LINE - *n, fmt, args);
  va_end(args);
  if (k > 0) *n = *n + (size_t)k < MAX_LINE ? *n + (size_t)k : MAX_LINE - 1;
}

static void add_duration(char *line, size_t *n, double seconds) {
  unsigned long s = seconds < 0 ? 0 : seconds < 3.6e8 ? (unsigned long)(seconds + 0.5) : 360000000;
  if (s >= 3600) add(line, n, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
  else add(line, n, "%02lu:%02lu", s / 60, s % 60);
}

static double fraction_of(const RtProgress *p) { return p->done >= p->total ? 1 : (double)p->done / (double)p->total; }

// "52%  21/40  18.3/s  ETA 00:01  loss 0.12"
static void add_numbers(const RtProgress *p, char *line, size_t *n) {
  size_t since = p->done > p->before ? p->done - p->before : 0;
  double seconds = rt_now_s() - p->start, rate = seconds > 0 ? (double)since / seconds : 0;
  if (p->total) add(line, n, "%3d%%  %zu/%zu", (int)(100 * fraction_of(p)), p->done, p->total);
  else add(line, n, "%zu", p->done);
  add(line, n, rate < 10 ? "  %.2f/s" : rate < 1000 ? "  %.1f/s" : "  %.0f/s", rate);
  if (p->total && p->done < p->total && since) {
    add(line, n, "  ETA ");
    add_duration(line, n, (double)(p->total - p->done) / rate);
  } else if (p->done >= p->total) {
    add(line, n, "  in ");
    add_duration(line, n, seconds);
  }
  if (p->text[0]) add(line, n, "  %s", p->text);
}

// `columns` wide, brackets included.
static void add_bar(const RtProgress *p, char *line, size_t *n, size_t columns) {
  size_t inside = columns - 2, full = (size_t)(fraction_of(p) * (double)inside);
  add(line, n, "[");
  for (size_t i = 0; i < inside; i++) add(line, n, "%c", i < full ? '=' : i == full ? '>' : ' ');
  add(line, n, "] ");
}

static void draw(RtProgress *p) {
  char line[MAX_LINE], numbers[MAX_LINE];
  size_t n = 0, n_numbers = 0, width = line_width(p->out);
  add_numbers(p, numbers, &n_numbers);
  add(line, &n, "%s ", p->what);
  size_t used = n + n_numbers + 2;
  size_t bar = used + MIN_BAR > width ? 0 : width - used < MAX_BAR ? width - used : MAX_BAR;
  if (p->total && bar) add_bar(p, line, &n, bar);
  add(line, &n, "%s", numbers);
  line[clip(line, width - 1)] = 0;      // the last column would wrap on some terminals
  fprintf(p->out, "\r%s\033[K", line);  // what an older, longer line left is erased
  fflush(p->out);
  p->is_line_open = true;
}

static void print_plain(RtProgress *p) {
  char line[MAX_LINE];
  size_t n = 0;
  add(line, &n, "%s ", p->what);
  add_numbers(p, line, &n);
  fprintf(p->out, "%s\n", line);
  fflush(p->out);
}

static void show(RtProgress *p) {
  if (p->is_terminal) draw(p);
  else print_plain(p);
  p->last = rt_now_s();
  p->is_drawn = true;
}

// Plain lines stand at tenths of a known total, else at counts eight times apart.
static size_t next_plain(const RtProgress *p) {
  if (!p->total) return p->done < SIZE_MAX / 8 ? p->done * 8 : SIZE_MAX;
  size_t tenth = (p->total + PLAIN_LINES - 1) / PLAIN_LINES;
  size_t next = (p->done / tenth + 1) * tenth;
  return next < p->total || p->done >= p->total ? next : p->total;
}

RtProgress *rt_progress_begin(FILE *out, const char *what, size_t total) {
  RtProgress *p = rt_malloc(sizeof *p);
  if (!p) return NULL;
  *p = (RtProgress){.out = out, .total = total, .is_terminal = is_drawable(out), .start = rt_now_s()};
  snprintf(p->what, sizeof p->what, "%s", what ? what : "");
  p->next = total ? next_plain(p) : 1;
  return p;
}

void rt_progress_resume(RtProgress *p, size_t done) {
  if (!p) return;
  p->before = p->done = done;
  p->next = p->total ? next_plain(p) : done < SIZE_MAX ? done + 1 : done;
}

void rt_progress_vstep(RtProgress *p, size_t done, const char *fmt, va_list args) {
  if (!p) return;
  p->text[0] = 0;
  if (fmt) rt_vformat(p->text, sizeof p->text, fmt, args);
  for (char *s = p->text; *s; s++)
    if ((unsigned char)*s < 0x20) *s = ' ';
  p->done = done;
  p->is_drawn = false;
  bool is_due = p->is_terminal ? !p->is_line_open || rt_now_s() - p->last >= redraw_seconds : done >= p->next;
  if (!is_due) return;
  show(p);
  p->next = next_plain(p);
}

void rt_progress_step(RtProgress *p, size_t done, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  rt_progress_vstep(p, done, fmt, args);
  va_end(args);
}

void rt_progress_end(RtProgress *p) {
  if (!p) return;
  bool was_stepped = p->done != p->before || p->text[0] || p->is_line_open;
  if (was_stepped && !p->is_drawn) show(p);
  if (p->is_line_open) {
    fputc('\n', p->out);
    fflush(p->out);
  }
  rt_free(p);
}
