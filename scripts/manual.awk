# awk -f manual.awk COMMAND.md: the text of the manual page, in the language of man(7). Knows what docs/command.md has: headings,
# paragraphs, lists, tables, blocks of code, `code` and links. The comment "verbs" of the page stays one, for cli/verbs/manual.c.
function escape(text) {
  gsub(/\\/, "\\e", text); gsub(/-/, "\\-", text); gsub(/'/, "\\(aq", text)
  gsub(/\^/, "\\(ha", text); gsub(/~/, "\\(ti", text)
  return text
}
function plain(text,  target) { # without links and emphasis
  while (match(text, /\[[^]`]*\]\([^)]*\)/)) {
    target = substr(text, RSTART, RLENGTH)
    text = substr(text, 1, RSTART - 1) substr(target, 2, index(target, "](") - 2) substr(text, RSTART + RLENGTH)
  }
  gsub(/\*\*/, "", text)
  return escape(text)
}
function inline(text,  parts, count, i, line) {
  count = split(text, parts, "`")
  for (i = 1; i <= count; i++) line = line (i % 2 ? plain(parts[i]) : "\\fB" escape(parts[i]) "\\fR")
  return line ~ /^[.']/ ? "\\&" line : line
}
function code(text) { text = escape(text); print (text ~ /^[.']/ ? "\\&" : "") text }
function begin_code() { print ".PP\n.RS 4\n.nf"; in_code = 1 }
function end_code() { print ".fi\n.RE"; in_code = 0; need = 1 }
function table_row(  cells, count, i, text) {
  gsub(/^\| *| *\|$/, "")
  count = split($0, cells, / *\| */)
  if (!row++) { for (i = 1; i <= count; i++) head[i] = cells[i]; return }
  if (row == 2) return
  for (i = 2; i <= count; i++) text = text (i > 2 ? "; " : "") (count > 2 ? head[i] " " : "") cells[i]
  print ".TP\n" inline(cells[1]) "\n" inline(text)
}
/^# / { next }
/^<!-- .* -->$/ { print ".\\\" " $2; next }
/^```/ { if (in_code) end_code(); else begin_code(); next }
in_code { code($0); next }
/^    / { if (!indented) print ".PP\n.RS 4\n.nf"; indented = 1; code(substr($0, 5)); next }
indented { print ".fi\n.RE"; indented = 0; need = 1 }
/^\|/ { table_row(); next }
{ row = 0 }
/^$/ { need = 1; next }
/^## / { print ".SH " escape(toupper(substr($0, 4))); need = 0; next }
/^- / { print ".IP \\(bu 2"; print inline(substr($0, 3)); need = 0; next }
/^  [^ ]/ { sub(/^ +/, "") }
{ if (need) print ".PP"; need = 0; print inline($0) }
