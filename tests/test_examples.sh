#!/usr/bin/env bash
# seq2seq and translate learn their dates. resnet: what it saves, it loads. charlm and tagger: the loss falls below a bound.
# These two and documents: a training that was interrupted and resumed leaves the same file, byte for byte, as one that was
# not; Ctrl-C saves; wrong arguments are told.
set -u
bin=$TENURE_BUILD/examples
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
exec 3>&2 2>"$dir/stderr"  # of all of them; a program that copied it would be waited for, too
n_failed=0
fail() { echo "failed: $*"; n_failed=$((n_failed + 1)); }
below() { awk -v x="$1" -v bound="$2" 'BEGIN { exit !(x != "" && x + 0 < bound) }'; }

# $1: exit status, $2: part of the message; the rest: the command
refused() {
  local status=$1 part=$2 said; shift 2
  said=$("$@" 2>&1 >/dev/null < /dev/null); local found=$?
  [ $found = "$status" ] || fail "$*: status $found, expected $status"
  [[ $said == *"$part"* ]] || fail "$*: said '$said', expected '$part'"
}
# Every example: --help is an answer, what it does not know a mistake
for example in $(cd "$TENURE_SOURCE/examples" && ls ./*.c mpi/*_mpi.c); do
  name=$(basename "$example" .c)
  [ -x "$bin/$name" ] || { [[ $example == mpi/* ]] && continue; fail "$name was not built"; }
  said=$("$bin/$name" --help 2> "$dir/err" < /dev/null) || fail "$name --help: status $?"
  [[ $said == "$name: "*$'\n\n'"$name "*"[--"* && ! -s $dir/err ]] || fail "$name --help says '$said' $(cat "$dir/err")"
  refused 2 "$name: there is no --bogus" "$bin/$name" --bogus
  lines=$(wc -l < "$TENURE_SOURCE/examples/$example")
  [ "$lines" -lt 150 ] || fail "$example has $lines lines, expected less than 150"
done
refused 2 "charlm: --epochs takes a whole number from 0 on, and nothing stands behind it" "$bin/charlm" --epochs
refused 2 "charlm: --epochs takes a whole number from 0 on, not '3x'" "$bin/charlm" --epochs 3x
refused 2 "charlm: --temperature takes a number above 0, not '0'" "$bin/charlm" --temperature 0
refused 2 "charlm: --temperature takes a number above 0, not 'nan'" "$bin/charlm" --temperature nan
refused 2 "charlm: --checkpoint takes FILE, not '--resume'" "$bin/charlm" --checkpoint --resume
refused 2 "digits: --folds takes a whole number from 1 to 5, not '6'" "$bin/digits" --folds 6
refused 2 "vae: 'more' is more than it takes" "$bin/vae" more
refused 1 "/no/such/text: No such file" "$bin/charlm" /no/such/text
refused 1 "/no/such/file: No such file" "$bin/charlm" --resume --checkpoint /no/such/file
echo "too short" > "$dir/short"
refused 1 "the text: it is too short: a batch takes 769 characters" "$bin/charlm" "$dir/short"
: > "$dir/empty"
refused 1 "the text: it is too short" "$bin/charlm" "$dir/empty"
refused 1 "charlm: $dir: Is a directory" "$bin/charlm" "$dir"
refused 1 "byte 0: the file ends" "$bin/charlm" --resume --checkpoint "$dir/empty"
refused 2 "vowels [--data DIR]" "$bin/vowels" --epochs 3x
refused 1 "/no/such/JapaneseVowels_TRAIN.ts: No such file" "$bin/vowels" --data /no/such
refused 1 "No such file" "$bin/charlm" --epochs 0 --checkpoint "$dir/no/folder"
refused 2 "tagger [--steps N]" "$bin/tagger" --steps -1
refused 2 "tagger [--steps N]" "$bin/tagger" --checkpoint
refused 1 "/no/such/file: No such file" "$bin/tagger" --resume --checkpoint /no/such/file

# A text of 16 x 12 items; 13 letters in words that repeat: well below the 3.7 bits of its alphabet
yes 'the gate shuts the rnn; a cell sits in the state' | head -c 9300 > "$dir/text"
run() { "$bin/charlm" --sample 20 "$@" "$dir/text" > "$dir/out" 2> "$dir/err" < /dev/null || fail "charlm $*: $(cat "$dir/err")"; }
run --epochs 6 --checkpoint "$dir/whole"
bits=$(sed -n 's/.* \([0-9.]*\) bits a character.*/\1/p' "$dir/out" | tail -1)
below "$bits" 2.5 || fail "charlm: $bits bits a character after 6 epochs, expected below 2.5"
run --epochs 2 --checkpoint "$dir/parts"
run --epochs 4 --checkpoint "$dir/parts" --resume
run --epochs 6 --checkpoint "$dir/parts" --resume
cmp "$dir/whole" "$dir/parts" || fail "charlm: resumed training differs"
again=$(sed -n 's/.* \([0-9.]*\) bits a character.*/\1/p' "$dir/out" | tail -1)
[ "$again" = "$bits" ] || fail "charlm: after --resume it shows a mean of $again bits a character, without a stop $bits"
tr a-m A-M < "$dir/text" > "$dir/other"
refused 1 "" "$bin/charlm" --resume --checkpoint "$dir/whole" "$dir/other"

# Ctrl-C in the middle, once there is a first line of progress or a checkpoint. Gives the batches done in $done.
# Background jobs of a script ignore it unless they are given a process group of their own.
interrupt() {
  rm -f "$dir/out" "$dir/status" "$dir/parts"
  ( set -m; "$@" > "$dir/out" 2>&1 < /dev/null & echo $! > "$dir/pid"; wait $!; echo $? > "$dir/status" ) &
  for ((k = 0; k < 600; k++)); do [ -s "$dir/out" ] || [ -e "$dir/parts" ] && break; sleep 0.1; done
  kill -INT "$(cat "$dir/pid")"; wait
  [ "$(cat "$dir/status")" = 0 ] || fail "$1: status $(cat "$dir/status") after Ctrl-C: $(cat "$dir/out")"
  done=$(sed -n 's/^stopped after \([0-9]*\) of .*/\1/p' "$dir/out")
  [ -n "$done" ] || fail "$1: does not say where it stopped: $(cat "$dir/out")"
}
interrupt "$bin/charlm" --epochs 1000000 --checkpoint "$dir/parts" "$dir/text"
epochs=$((${done:-0} / 12 + 1))
run --epochs $epochs --checkpoint "$dir/parts" --resume
run --epochs $epochs --checkpoint "$dir/whole2"
cmp "$dir/whole2" "$dir/parts" || fail "charlm: training resumed after Ctrl-C (batch $done) differs"

# Batches by rows: their number is another in each epoch
awk 'BEGIN { for (k = 0; k < 60; k++) { for (i = 0; i <= k * k % 97; i++) printf "rows "; print "\n" } }' > "$dir/paragraphs"
documents() { "$bin/documents" "$@" "$dir/paragraphs" > "$dir/out" 2> "$dir/err" < /dev/null || fail "documents $*: $(cat "$dir/err")"; }
interrupt "$bin/documents" --epochs 1000000 --checkpoint "$dir/parts" "$dir/paragraphs"
epochs=$(($(sed -n 's/.* batches of epoch \([0-9]*\);.*/\1/p' "$dir/out") + 1))
documents --epochs $epochs --checkpoint "$dir/parts" --resume
documents --epochs $epochs --checkpoint "$dir/whole"
cmp "$dir/whole" "$dir/parts" || fail "documents: training resumed after Ctrl-C (epoch $epochs, batch $done) differs"
refused 1 "the text: it has no paragraphs" "$bin/documents" "$dir/empty"

"$bin/seq2seq" > "$dir/out" || fail "seq2seq"
right=$(sed -n 's/^seq2seq: \([0-9.]*\) of .* dates are right/\1/p' "$dir/out")
below "$(awk -v r="${right:-0}" 'BEGIN { print 1 - r }')" 0.05 || fail "seq2seq: $right of the dates are right, expected 0.95"
refused 2 "seq2seq [--steps N]" "$bin/seq2seq" --steps -1
"$bin/translate" > "$dir/out" || fail "translate"
right=$(sed -n 's/^translate: \([0-9.]*\) of .* dates match exactly/\1/p' "$dir/out")
below "$(awk -v r="${right:-0}" 'BEGIN { print 1 - r }')" 0.05 || fail "translate: $right of the dates match, expected 0.95"

"$bin/tagger" --steps 150 --checkpoint "$dir/whole" > "$dir/out" || fail "tagger"
right=$(sed -n 's/^tagger: \([0-9.]*\) of .* labels are right/\1/p' "$dir/out")
below "$(awk -v r="${right:-0}" 'BEGIN { print 1 - r }')" 0.06 || fail "tagger: $right right after 150 steps, expected 0.94"
"$bin/tagger" --steps 70 --checkpoint "$dir/parts" > "$dir/out" || fail "tagger, 70 steps"
"$bin/tagger" --steps 150 --checkpoint "$dir/parts" --resume > "$dir/out" || fail "tagger, resumed"
cmp "$dir/whole" "$dir/parts" || fail "tagger: resumed training differs"
refused 1 "" "$bin/charlm" --resume --checkpoint "$dir/whole" "$dir/text"
refused 1 "byte 0: the file ends" "$bin/tagger" --resume --checkpoint "$dir/empty"
refused 1 "" "$bin/tagger" --resume --checkpoint "$dir/text"
interrupt "$bin/tagger" --steps 10000 --checkpoint "$dir/parts"
steps=$((${done:-0} + 7))
"$bin/tagger" --steps $steps --checkpoint "$dir/parts" --resume > "$dir/out" || fail "tagger, resumed after Ctrl-C"
"$bin/tagger" --steps $steps --checkpoint "$dir/whole" > "$dir/out" || fail "tagger, $steps steps"
cmp "$dir/whole" "$dir/parts" || fail "tagger: training resumed after Ctrl-C (step $done) differs"

# The weights that resnet saves name as many images right when they are loaded; those of another depth are told apart
"$bin/resnet" --side 8 --epochs 1 --out "$dir/resnet" > "$dir/out" || fail "resnet"
"$bin/resnet" --side 8 --epochs 0 --weights "$dir/resnet" > "$dir/again" || fail "resnet, loaded"
grep -q '^.*/resnet: 128 entries loaded$' "$dir/again" || fail "resnet: $(head -1 "$dir/again"), expected 128 entries"
cmp <(tail -6 "$dir/out") <(tail -6 "$dir/again") || fail "resnet: the loaded network predicts something else"
"$bin/resnet" --side 8 --epochs 0 --depth 56 --weights "$dir/resnet" | grep -q '^layer3.8.bn2.weight: missing$' ||
  fail "resnet: a file of depth 20 has no layer3.8"
"$bin/resnet" --side 8 --epochs 0 --weights "$dir/resnet" tests/corpus/image/gray.png > "$dir/again" 2>&1
grep -q -e '^tests/corpus/image/gray.png: class [0-9]$' -e 'this build reads no PNG' "$dir/again" || fail "resnet: $(tail -1 "$dir/again")"
interrupt "$bin/resnet" --side 8 --epochs 100000 --out "$dir/stopped"
"$bin/resnet" --side 8 --epochs 0 --weights "$dir/stopped" > "$dir/again" || fail "resnet: what it saved after Ctrl-C"
cmp <(tail -6 "$dir/out") <(tail -6 "$dir/again") || fail "resnet: what it saved after Ctrl-C predicts something else"
refused 2 "resnet [--depth" "$bin/resnet" --depth 21
refused 1 "resnet: the data: $dir/short: 10 bytes are no whole number of images" "$bin/resnet" --cifar "$dir/short"
refused 1 "resnet: the weights: $dir/short: byte 0: this is no safetensors file but text" "$bin/resnet" --weights "$dir/short" --epochs 0

# gpt2: without epochs it writes alone, reads no text and saves nothing; a resumed one goes on as the whole one; Ctrl-C stops it while it
# writes; heads are those of config.json
refused 2 "gpt [--steps N]" "$bin/gpt" --bogus
refused 2 "module [--steps N]" "$bin/module" --steps 0
refused 2 "gpt2: --size takes LAYERS,WIDTH,HEADS,PLACES, not '2,10,3,5'" "$bin/gpt2" --size 2,10,3,5
refused 2 "gpt2: --top-p takes a number from 0 to 1, not '1.5'" "$bin/gpt2" --top-p 1.5
refused 1 "gpt2: the prompt: 5 tokens, where 1 to 4 can be read" "$bin/gpt2" --size 1,8,1,4 --epochs 0 --prompt abcde
refused 1 "gpt2: the text: it is too short: a batch takes 17 tokens" "$bin/gpt2" --size 1,8,1,4 --epochs 1 "$dir/short"
"$bin/gpt2" --size 1,8,1,4 --tokens 1 --prompt a --epochs 1 --checkpoint "$dir/few" "$dir/text" > "$dir/out" || fail "gpt2 of four places"
refused 1 "gpt2: the prompt: 0 tokens" "$bin/gpt2" --size 1,8,1,4 --epochs 0 --prompt ""
refused 1 "gpt2: /no/such: neither vocab.json nor model.safetensors can be read" "$bin/gpt2" --files /no/such --epochs 0
refused 1 "/no/such/file: No such file" "$bin/gpt2" --epochs 0 --resume --checkpoint /no/such/file
small=(--size 1,16,2,128 --tokens 20)
(cd "$dir" && "$bin/gpt2" "${small[@]}" --epochs 0 > out) || fail "gpt2 --epochs 0 where there is no text"
[ ! -e "$dir/gpt2.safetensors" ] || fail "gpt2 --epochs 0 saves a model that nobody trained"
"$bin/gpt2" "${small[@]}" --epochs 2 --checkpoint "$dir/whole" "$dir/text" > "$dir/out" || fail "gpt2, 2 epochs"
"$bin/gpt2" "${small[@]}" --epochs 1 --checkpoint "$dir/parts" "$dir/text" > "$dir/out" || fail "gpt2, 1 epoch"
"$bin/gpt2" "${small[@]}" --epochs 2 --checkpoint "$dir/parts" --resume "$dir/text" > "$dir/out" || fail "gpt2, resumed"
cmp "$dir/whole" "$dir/parts" || fail "gpt2: resumed training differs"
"$bin/gpt2" "${small[@]}" --epochs 0 --temperature 0 --checkpoint "$dir/whole" --resume > "$dir/a" || fail "gpt2 --epochs 0 --resume"
"$bin/gpt2" "${small[@]}" --epochs 0 --top-k 1 --seed 7 --checkpoint "$dir/parts" --resume > "$dir/b"
cmp "$dir/a" "$dir/b" || fail "gpt2: the likeliest tokens are not those of --top-k 1"
for likeliest in "--top-p 0" "--temperature 1e-30 --top-k 100000"; do
  "$bin/gpt2" "${small[@]}" --epochs 0 $likeliest --checkpoint "$dir/whole" --resume > "$dir/b"
  cmp "$dir/a" "$dir/b" || fail "gpt2: the likeliest tokens are not those of $likeliest"
done
cmp "$dir/whole" "$dir/parts" || fail "gpt2 --epochs 0 changes its checkpoint"
rm -f "$dir/out" "$dir/status"
( set -m; "$bin/gpt2" --size 1,8,1,400000 --epochs 0 --tokens 399000 > "$dir/out" & echo $! > "$dir/pid"; wait $!; echo $? > "$dir/status" ) &
for ((k = 0; k < 600; k++)); do [ -s "$dir/out" ] && break; sleep 0.1; done
kill -INT "$(cat "$dir/pid")"; wait
[ "$(cat "$dir/status")" = 0 ] && [ "$(wc -c < "$dir/out")" -lt 300000 ] || fail "gpt2: Ctrl-C does not stop it while it writes"

cat "$dir/stderr" >&3
grep 'warning\[' "$dir/stderr" && fail "an example is warned of something"
echo "charlm: $bits bits a character; tagger: Ctrl-C after step $done, tagger: $right right; $n_failed failed"
[ $n_failed = 0 ]
