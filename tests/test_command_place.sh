#!/usr/bin/env bash
# tenure plan: buffers in minimalloc's format in, a column of offsets out; mistakes in the file by line.
source tests/command.sh

cat >buffers.csv <<'CSV'
id,lower,upper,size
b1,0,3,4
b2,3,9,4
b3,0,9,4
b4,9,21,4
b5,0,21,4
CSV
check 0 'b5,0,21,4,8' plan buffers.csv
check 0 'peak 12, lower bound 12, gap 0.0 %, the least; 5 buffers' plan buffers.csv
check 0 'peak 12' plan buffers.csv --capacity 12 -o placed.csv
[[ $(head -2 placed.csv) == $'id,lower,upper,size,offset\nb1,0,3,4,0' ]] || fail "placed.csv begins $(head -2 placed.csv)"
check 0 'b1,0,3,4,0' plan placed.csv # all offsets given: they are checked and kept
check 1 'no placement is within the capacity' plan buffers.csv --capacity 11
check_json 0 '.buffers = 5 and .peak = 12 and .lower_bound = 12 and .optimal and not .impossible and .offsets.4 = 8' plan buffers.csv --json
check 0 'peak 48' plan buffers.csv --align 16 --capacity 64
out=$("$tenure" plan - <buffers.csv 2>/dev/null) && [[ $out == *b5,0,21,4,8* ]] || fail "standard input: $out"

# ends that are included, holes, alignments, given offsets, columns in another order, lines of Windows
printf 'size,offset,buffer_id,start,end,gaps,alignment\r\n4,,a,0,8,2-5,8\r\n4,8,b,1,6,,1\r\n4,,c,2,4,,4\r\n' >more.csv
check 0 '4,0,a,0,8,2-5,8' plan more.csv
check 0 '4,8,b,1,6,,1' plan more.csv
check 0 '4,0,c,2,4,,4' plan more.csv
check 0 'peak 12' plan more.csv

hard=$TENURE_SOURCE/tests/placement/H.1048576.csv
check 0 'peak 1048576, lower bound 1048576' plan "$hard" --capacity 1MiB --budget 50000 -o h.csv
check 1 'which the budget did not reach' plan "$hard" --capacity 1MiB --budget 0 -o h.csv

# bad HEADER LINE TEXT: said of line 2, or of line 1 where LINE is empty
bad() {
  printf '%s\n' "$1" ${2:+"$2"} >bad.csv
  check 1 "bad.csv:$((1 + ${#2} / (${#2} + (${#2} == 0)))): $3" plan bad.csv
}
four=id,lower,upper,size
bad id,lower,upper '' "there is no column 'size'"
bad id,lower,upper,sise '' "unknown column 'sise'; did you mean 'size'?"
bad id,id,lower,upper,size '' "column 'id' is there twice"
bad $four a,0,3 '3 fields, where the header has 4'
bad $four a,0,x,4 "upper is 'x', and must be a whole number"
bad $four a,3,3,4 'the buffer lives from 3 to 3: its end must be above its start'
bad $four a,0,3,-4 'the buffer has size -4'
bad $four,alignment a,0,3,4,-1 'the buffer has alignment -1'
bad $four,offset a,0,3,4,-1 'offset is -1'
bad $four,gaps 'a,0,9,4,3' "a gap is '3', and must be START-END"
bad $four,gaps 'a,0,9,4,3-12' 'the buffer has a hole from 3 to 12'
bad $four,gaps 'a,0,9,4,3-5@0:2' 'gaps with a window'
printf '%s\n' $four,offset a,0,3,4,0 b,2,4,4,2 >bad.csv
check 1 'bad.csv:3: the buffer overlaps another one, that of line 2' plan bad.csv
: >bad.csv
check 1 'bad.csv:1: no header' plan bad.csv
check 1 'none.csv: No such file' plan none.csv
check 2 'wants' plan buffers.csv --budget much
exit $((n_failed != 0))
