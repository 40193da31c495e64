// What tn_compile prints by itself: a beginner who asks for no report sees what a C compiler would show, once.
#include "frontend/tenure.h"
#include "runtime/base.h"
#include "tests/check.h"
#include "tests/report.h"

#include <stdlib.h>
#include <unistd.h>

// ---- stderr of a few calls
static int to_restore;
static FILE *caught;

static void catch_stderr(void) {
  fflush(stderr);
  to_restore = dup(STDERR_FILENO), caught = tmpfile();
  CHECK(to_restore >= 0 && caught && dup2(fileno(caught), STDERR_FILENO) >= 0);
}

// Valid until the next call.
static const char *caught_text(void) {
  static char text[4000];
  fflush(stderr);
  dup2(to_restore, STDERR_FILENO), close(to_restore);
  rewind(caught);
  text[fread(text, 1, sizeof text - 1, caught)] = 0;
  fclose(caught);
  return text;
}

static int count(const char *text, const char *part) {
  int n = 0;
  for (const char *at = text; (at = strstr(at, part)); at += strlen(part)) n++;
  return n;
}

// ---- programs
static tn_program *sound(void) {
  tn_program *p = tn_program_create("sound");
  tn_function *f = tn_function_begin(p, "f");
  tn_output(f, "y", tn_relu(tn_input(f, "x", TN_F32, TN_SHAPE(4))));
  tn_function_end(f);
  return p;
}

static tn_program *broken(void) {
  tn_program *p = tn_program_create("broken");
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor a = tn_input(f, "a", TN_F32, TN_SHAPE(4)), b = tn_input(f, "b", TN_F32, TN_SHAPE(3));
  tn_output(f, "y", tn_add(a, b));
  tn_function_end(f);
  return p;
}

static void test_error(void) {
  tn_program *p = broken();
  catch_stderr();
  CHECK(!tn_compile(p));
  CHECK(tn_report(p, stderr) == TN_ERR_BUILD);  // as callers do: nothing comes twice
  const char *text = caught_text();
  CHECK(count(text, "error[E004]") == 1 && count(text, "hint: ") <= 1);
  CHECK_HAS(text, "test_compile_output.c:");
  CHECK_HAS(text, "note: a is input 'a', f32[4], made here");
  CHECK(!strcmp(report_of(p), text));  // other streams have all of it
  catch_stderr();
  CHECK(!tn_compile(p));
  CHECK(!*caught_text());  // a program with errors is not compiled: no new mistake
  tn_program_free(p);
}

static void test_second_compile(void) {
  tn_program *p = sound();
  catch_stderr();
  tn_model *m = tn_compile(p, .n_workers = 1);
  CHECK(m && !*caught_text());
  catch_stderr();
  CHECK(!tn_compile(p));
  const char *text = caught_text();
  CHECK_HAS(text, "error[E009]: the program was compiled already");
  tn_model_free(m), tn_program_free(p);
}

static void test_warning(void) {
  setenv("TN_GEMM", "onw", 1);
  tn_program *p = sound();
  catch_stderr();
  tn_model *m = tn_compile(p, .n_workers = 1);
  const char *text = caught_text();
  CHECK(m && count(text, "warning[W128]: TN_GEMM has the value 'onw'") == 1 && count(text, "\n") == 2);
  CHECK_HAS(text, "hint: accepted: own,blas,auto");
  tn_model_free(m), tn_program_free(p);
  unsetenv("TN_GEMM");
}

static void test_quiet(void) {
  tn_program *p = broken();
  catch_stderr();
  CHECK(!tn_compile(p, .quiet = true));
  CHECK(!*caught_text());
  CHECK_HAS(report_of(p), "error[E004]");
  catch_stderr();
  tn_report(p, stderr);
  CHECK_HAS(caught_text(), "error[E004]");
  tn_program_free(p);
}

static void test_reported_before(void) {
  tn_program *p = broken();
  catch_stderr();
  tn_report(p, stderr);
  CHECK(count(caught_text(), "error[E004]") == 1);
  catch_stderr();
  CHECK(!tn_compile(p));
  CHECK(!*caught_text());
  tn_program_free(p);
}

// A note that belongs to no error is for those who ask.
static void test_note(void) {
  tn_program *p = tn_program_create("note");
  tn_function *f = tn_function_begin(p, "f");
  tn_scope *s = tn_scope_begin(f, "s");
  tn_tensor y = tn_relu(tn_input(f, "x", TN_F32, TN_SHAPE(4)));
  tn_output(f, "y", tn_move_to_outer(tn_move_to(y, s)));
  tn_scope_end(s);
  tn_function_end(f);
  catch_stderr();
  tn_model *m = tn_compile(p, .n_workers = 1);
  CHECK(m && !*caught_text());
  catch_stderr();
  CHECK(tn_report(p, stderr) == TN_OK);
  CHECK_HAS(caught_text(), "note[E105]");
  tn_model_free(m), tn_program_free(p);
}

static void test_no_program(void) {
  catch_stderr();
  CHECK(!tn_compile(NULL));
  const char *text = caught_text();
  CHECK_HAS(text, "test_compile_output.c:");
  CHECK_HAS(text, "error[E003]: tn_compile: there is no program");
  catch_stderr();
  CHECK(!tn_compile(NULL, .quiet = true));
  CHECK(!*caught_text());
}

static void test_no_memory(void) {
  tn_program *p = sound();
  catch_stderr();
  rt_malloc_fail_at(1);
  tn_model *m = tn_compile(p, .n_workers = 1);
  rt_malloc_fail_at(0);
  CHECK(!m && tn_report(p, stderr) == TN_ERR_MEMORY);
  CHECK(count(caught_text(), "error[E006]") == 1);
  tn_program_free(p);
}

int main(void) {
  test_error();
  test_second_compile();
  test_warning();
  test_quiet();
  test_reported_before();
  test_note();
  test_no_program();
  test_no_memory();
  return check_report();
}
