# Completion of shells and the manual page: made of the verbs and options, so that none is missing.
source "$(dirname "$0")/common.bash"

for shell in bash zsh fish; do
  expect 0 "$neap" completion $shell
  cp out completion.$shell
  [ ! -s err ] || fail "completion $shell writes messages"
done
expect 0 "$neap" manual
cp out neap.1
expect 0 "$neap" completion zsh --json
has text
expect 2 "$neap" completion
says "bash, zsh or fish"
expect 2 "$neap" completion powershell
says powershell

# Every verb and every option that a help has is in all of them.
expect 0 "$neap" --help
verbs=$(sed -n 's/^  neap \([a-z]*\) .*/\1/p' out)
[ "$(wc -w <<<"$verbs")" -ge 15 ] || fail "the help has no verbs"
for verb in $verbs; do
  grep -q "^    $verb) words=" completion.bash || fail "bash does not complete $verb"
  grep -q "^    $verb)$" completion.zsh || fail "zsh does not complete $verb"
  grep -q -- "-a $verb -d" completion.fish || fail "fish does not complete $verb"
  grep -q "^\.SS neap $verb$" neap.1 || fail "the manual does not have $verb"
  expect 0 "$neap" "$verb" --help
  for option in $(sed -n 's/^  \(-[a-z0-9-]*\) .*/\1/p' out); do
    sed -n "s/^    $verb) words=//p" completion.bash | grep -F -- "$option" >/dev/null || fail "bash: $verb $option"
    sed -n "/^    $verb)$/,/;;/p" completion.zsh | grep -F -- "'$option[" >/dev/null || fail "zsh: $verb $option"
    [ "$option" = --help ] && continue
    grep -qE -- "from $verb' -[ls] ${option##*-}( |$)|from $verb' -l ${option#--} " completion.fish || fail "fish: $verb $option"
    sed -n "/^\.SS neap $verb$/,/^\.S/p" neap.1 | grep -F -- "\\fB${option//-/\\-}\\fR" >/dev/null || fail "the manual: $verb $option"
  done
done

# What bash offers.
completes() { # completes WORD... LAST WANTED: the reply for this command line has WANTED
  local wanted=${*: -1}
  (
    set +u
    source ./completion.bash
    COMP_WORDS=(neap "${@:1:$#-1}")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _neap
    printf '%s\n' "${COMPREPLY[@]}"
  ) >reply
  grep -qxF -- "$wanted" reply || fail "${*:1:$#-1} is not completed to $wanted"
}
completes tr train
completes help ev evaluate
completes train --opti --optimizer
completes train --optimizer ad adamw
completes train --optimizer = rm rmsprop
completes plan --planner ro rotor
completes train --model wr wrn-
completes train --shuffle "" off
touch plan-of-mine.json
completes train --plan plan-of plan-of-mine.json
completes predict -o plan-of plan-of-mine.json

# Every topic of docs/command.md is a section of the manual page, before or behind the verbs.
grep '^## ' "$source/docs/command.md" | cut -c4- | while IFS= read -r topic; do
  grep -qxF ".SH ${topic^^}" neap.1 || fail "the manual has no section '$topic'"
done
grep -qx '\.SH VERBS' neap.1 || fail "the manual has no verbs"
! grep -nE '\]\(|```|\*\*' neap.1 || fail "Markdown is left in the manual"

# Other shells and man, where there are such programs.
! command -v zsh >/dev/null || expect 0 zsh -n completion.zsh
! command -v fish >/dev/null || expect 0 fish -n completion.fish
if command -v groff >/dev/null; then
  expect 0 groff -man -Tascii -P-cbou -ww neap.1
  [ ! -s err ] || fail "groff warns of the manual page"
  grep -q "EXIT STATUS" out || fail "the manual page has no exit status"
fi

# `make install` puts them where shells and man look.
DESTDIR=$folder/there cmake --install "$build" --prefix /usr >/dev/null
for file in bash-completion/completions/neap zsh/site-functions/_neap fish/vendor_completions.d/neap.fish man/man1/neap.1; do
  [ -s "there/usr/share/$file" ] || fail "$file is not installed"
done
cmp there/usr/share/man/man1/neap.1 neap.1 || fail "the manual that is installed is another"
