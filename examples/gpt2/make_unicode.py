#!/usr/bin/env python3
"""Writes unicode.h: ranges of letters (L), numbers (N) and white space, as GPT-2's pattern of words reads them.

    python3 examples/gpt2/make_unicode.py > examples/gpt2/unicode.h      (unicodedata2 16.0: Unicode as tokenizers 0.23 reads it)
"""
import unicodedata2 as unicodedata


def ranges(is_in):
    out, code = [], 0
    while code < 0x110000:
        if not is_in(code):
            code += 1
            continue
        first = code
        while code < 0x110000 and is_in(code):
            code += 1
        out.append((first, code - 1))
    return out


def table(name, rows):
    lines = [f"static const Range {name}[] = {{"]
    for k in range(0, len(rows), 6):
        lines.append("    " + " ".join(f"{{0x{a:x}, 0x{b:x}}}," for a, b in rows[k : k + 6]))
    return "\n".join(lines + ["};"])


SPACE = {9, 10, 11, 12, 13, 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}
print(f"// Made by make_unicode.py from Unicode {unicodedata.unidata_version}: first and last code of each range.")
print("// clang-format off")
for name, rows in (
    ("letters", ranges(lambda c: unicodedata.category(chr(c))[0] == "L")),
    ("numbers", ranges(lambda c: unicodedata.category(chr(c))[0] == "N")),
    ("spaces", ranges(lambda c: c in SPACE)),
):
    print(table(name, rows))
print("// clang-format on")
