# scripts/check-words finds phrases that are not plain in the lines that a change adds, and in no others.
source "$(dirname "$0")/common.bash"
command -v git >/dev/null || exit 77

mkdir -p repository/scripts
cp "$source/scripts/check-words" repository/scripts
cd repository
git init -q -b main .
git config user.name test
git config user.email test@localhost
echo '/* It hangs on the batch. */' >old.c
git add -A
git commit -qm old
git commit -qm empty --allow-empty
expect 0 scripts/check-words
echo '/* It depends on the batch. */' >>old.c
expect 0 scripts/check-words
printf '/* It hangs on\n * the length. */\n' >>old.c
printf 'a temperature of 2 cannot be\n' >new.md
git add new.md
expect 1 scripts/check-words
says "old.c:3:"
says "new.md:1:"
! grep -q "old.c:1:" err || fail "a line that is not new is found"
git add -A
git commit -qm new
expect 1 scripts/check-words
git commit -qm later --allow-empty
expect 0 scripts/check-words
expect 1 scripts/check-words HEAD~2
expect 2 scripts/check-words no-such-commit

# --all looks at every line of the folders that are held to it, tracked ones alone.
mkdir src
printf '/* It depends on the batch. */\n' >src/plain.c
git add -A
WORDS_CLEAN=src expect 0 scripts/check-words --all
printf '/* It hangs on the batch. */\n' >src/odd.c
git add -A
git commit -qm odd
git commit -qm later --allow-empty
WORDS_CLEAN=src expect 1 scripts/check-words --all
says "src/odd.c:1:"

# A comment of src, cli or include begins with a verb or a noun: none of ten words begins one, in new lines and in all.
mkdir -p cli include tests
git rm -q src/odd.c
git commit -qm mended
words='What Whether Which How Who Whose Where When Of That'
for word in $words; do
  printf '/* %s a rule has. */\nint a; /** %s a rule has. */\n' "$word" "$word"
done >comments
lines=$(wc -l <comments)
[ "$lines" = 20 ] || fail "the comments have $lines lines"
for file in src/a.c cli/a.c include/a.h; do
  cp comments "$file"
  git add "$file"
  expect 1 scripts/check-words HEAD
  for line in $(seq "$lines"); do says "$file:$line:"; done
  WORDS_CLEAN='src cli include' expect 1 scripts/check-words --all
  for line in $(seq "$lines"); do says "$file:$line:"; done
  git rm -qf "$file"
  mkdir -p src cli include
done
rm comments
printf '/* The rule: What a rule has. */\nint a; /* what it has; of a rule */\n/* Whatever. */\nint b; /* Whenever. */\n/* Often, However, Those. */\n' >src/a.c
printf '/* What a test has. */\n' >tests/a.c
git add -A
expect 0 scripts/check-words HEAD
WORDS_CLEAN='src tests' expect 0 scripts/check-words --all
