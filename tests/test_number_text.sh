#!/usr/bin/env bash
# Floating-point numbers become text, and text numbers, in runtime/format.c alone, where no locale changes them: nobody
# else in the library calls strtod and its like, asks for a locale or for the locale's classes of characters, or gives
# the printf family a %e, %f, %g or %a or a format that is not there to be read (but for frontend/bundle/selftest.c, which
# writes a C program). Ends by breaking each rule in a copy.
set -euo pipefail
source_dir=${TENURE_SOURCE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
folders=(runtime ir codegen frontend)

# statements FILE..: `file:line: statement` for each statement, comments left out.
statements() {
  awk 'FNR == 1 { text = "" }
       { line = $0; sub(/(^|[^:])\/\/.*/, "", line); if (text == "") start = FNR; text = text " " line }
       line ~ /[;{}]$/ { print FILENAME ":" start ":" text; text = "" }' "$@"
}

# check_tree ROOT: prints every offending statement.
check_tree() (
  cd "$1"
  local files
  mapfile -t files < <(find "${folders[@]}" -name '*.[ch]' ! -path runtime/format.c ! -path frontend/bundle/selftest.c | sort)
  local call='(^|[^a-zA-Z0-9_])'
  statements "${files[@]}" >"$scratch/statements"
  offences() { grep -E "$call$2" "$scratch/statements" | sed "s/^/$1: /" || true; }
  offences 'reads a number' '(strto(d|f|ld)|atof|v?f?s?scanf)(_l)? *\('
  offences 'asks for a locale' '((set|new|use|dup|free)locale|localeconv|nl_langinfo|strcoll|strxfrm|strftime) *\('
  offences 'asks for a class of characters' '(is(alpha|digit|alnum|space|upper|lower|print|punct|graph|xdigit|cntrl|blank)|to(upper|lower)|strn?casecmp)(_l)? *\('
  offences 'formats by a format from elsewhere' '(v(f|s|sn|as|d)?|as)printf *\('
  offences 'formats a number' '(f|s|sn|d)?printf *\(.*%[-+ #0-9.*]*[lL]?[eEfFgGaA]'
)

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
offences=$(check_tree "$source_dir")
if [[ -n "$offences" ]]; then
  echo "$offences"
  exit 1
fi

# expect_offence FILE LINE: the rule that LINE in FILE breaks is seen.
expect_offence() {
  rm -rf "$scratch/tree"
  mkdir -p "$scratch/tree"
  cp -r "${folders[@]/#/$source_dir/}" "$scratch/tree"
  printf '%s\n' "$2" >"$scratch/tree/$1"
  [[ -n "$(check_tree "$scratch/tree")" ]] || { echo "not caught: $2 in $1" && exit 1; }
}
expect_offence runtime/new.c 'double x = strtod(text, NULL);'
expect_offence frontend/new.c 'double x = atof(text);'
expect_offence ir/new.c 'const char *point = localeconv()->decimal_point;'
expect_offence codegen/new.c 'if (isalnum(c)) n++;'
expect_offence codegen/new.c 'vsnprintf(text, sizeof text, fmt, args);'
expect_offence codegen/new.c $'fprintf(out, "{\\"ts\\": "\n        "%.3f},", ts);'
expect_offence ir/new.h 'snprintf(text, sizeof text, "%.*g", digits, v);'
expect_offence runtime/new.c 'printf("%5.1Lf", x);'
