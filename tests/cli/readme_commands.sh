# Every command of README.md and docs/command.md works, on small files of the names that the text has. A line of output that the README
# shows is one that the command prints, but for its numbers. What is tried elsewhere is listed below, with where. Names each command.
source "$(dirname "$0")/common.bash"
command -v python3 >/dev/null || exit 77

python3 "$source/tests/cli/stand_ins.py"
python3 "$source/tests/cli/small_llama.py" SmolLM2-135M-Instruct.Q4_1.gguf >/dev/null
expect 0 "$neap" train --model wrn-10-1 --data images:photos,size=64 --batch 16 --steps 1 --evaluate off --out first
expect 0 "$neap" export first -o resnet18.onnx
PATH=$build:$PATH
[ "$(command -v neap)" = "$neap" ] || fail "another neap is found"

# elsewhere COMMAND: it is tried by another test, or cannot run on this machine.
elsewhere() {
  case $1 in
    "cc examples/halves.c "*) ;; # readme_example.sh
    "mpirun "*) ;;              # tests/mpi/mpi.sh
    *"| man -l -") ! command -v man >/dev/null ;;
    *) false ;;
  esac
}

# masked: lines without their numbers, units of bytes and time, and the widths between words.
masked() { sed -E 's/-?[0-9][0-9.]*( ?(GiB|MiB|KiB|B|GB|MB|ms|s)\b)?/N/g; s/ +/ /g'; }

# as_tried COMMAND: it, or, in a quick pass, its plans by a planner that plans at once, where it searches for long.
as_tried() {
  case ${NEAP_QUICK:+quick}$1 in
    "quickneap curve "*) echo "$1 --points 3 --planner evict" ;;
    "quickneap plan "*" --allow "* | "quickneap train "*" --allow "*) echo "$1 --planner evict" ;;
    *) echo "$1" ;;
  esac
}

# commands FILE: its commands and the output that it shows, a line each, behind "$" or "=".
commands() {
  awk '/^```/ { kind = kind == "" ? substr($0, 4) : ""; next }
    kind != "console" && kind != "sh" { next }
    joined != "" { sub(/^ +/, ""); line = joined " " $0 }
    joined == "" { line = kind == "sh" ? "$" $0 : /^\$ / ? "$" substr($0, 3) : "=" $0 }
    line ~ /\\$/ { joined = substr(line, 1, length(line) - 2); next }
    { joined = ""; print line }' "$1"
}

for document in README.md docs/command.md; do
  commands "$source/$document" >listed
  [ "$(grep -c '^\$' listed)" -ge 9 ] || fail "$document has no commands"
  : >printed
  while IFS= read -r line; do
    text=${line:1}
    if [ "${line:0:1}" = = ]; then
      [ "$ran" = no ] || masked <<<"$text" | grep -qxFf - printed || fail "$document: '$command' does not print: $text"
      continue
    fi
    command=$text ran=no
    if elsewhere "$command"; then
      echo "elsewhere: $command"
      continue
    fi
    ran=yes
    expect 0 bash -eo pipefail -c "$(as_tried "$command")" </dev/null
    echo "ran: $command"
    cat out err | masked >printed
  done <listed
  rm -rf run wines mine net again book houses lora lora-adapter tuned adapter mine.gguf translator
done

# What the README shows of the C program is in it.
awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' "$source/README.md" >excerpt
[ -s excerpt ] || fail "the README shows no C"
while IFS= read -r line; do grep -qF -- "$line" "$source/examples/halves.c" || fail "examples/halves.c has no '$line'"; done <excerpt
[ "$(wc -l <"$source/README.md")" -le 110 ] || fail "the README is longer than 110 lines"

# Links lead to files.
for document in "$source"/*.md "$source"/docs/*.md "$source"/docs/*/*.md; do
  grep -oE '\]\([^)#:]+' "$document" | cut -c3- | grep -v "^http" | sort -u >links || true
  while IFS= read -r link; do [ -e "$(dirname "$document")/$link" ] || fail "$document: no file $link"; done <links
done
