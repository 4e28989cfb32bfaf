# The pages of `neap curve` and `neap show` in a browser, without a network: no script fails, what is drawn is what the
# files say, hovering names the tensor that lies there, a drag looks closer. Skipped (77) where there is no Chromium.
source "$(dirname "$0")/common.bash"

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$browser" ]; then
  echo "skipped: there is no Chromium"
  exit 77
fi

# visit PAGE SCRIPT: the page as it is after the script; each report(name, value) of it goes to the file reports as
# "name: value".
visit() {
  {
    echo '<!DOCTYPE html><script>'
    echo 'addEventListener("error", (event) => report("error", event.message));'
    echo 'function report(name, value) {'
    echo '  const line = document.createElement("report"); line.textContent = `${name}: ${value}`;'
    echo '  document.documentElement.append(line); }'
    echo '</script>'
    cat "$1"
    echo "<script>$2; report('done', 1);</script>"
  } >copy.html
  timeout 100 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$folder/profile" --window-size=1200,1600 \
    --proxy-server=127.0.0.1:1 --virtual-time-budget=3000 --dump-dom "file://$folder/copy.html" >dom 2>browser.log ||
    fail "the browser"
  grep -oP '(?<=<report>)[^<]*' dom | sed 's/&gt;/>/g; s/&amp;/\&/g' >reports || true
  ! grep '^error: ' reports || fail "a script failed"
  grep -q '^done: 1' reports || fail "the script did not end"
}

reported() { sed -n "s/^$1: //p" reports; }

pointer='
  function send(plot, type, x, y) {
    const box = plot.canvas.getBoundingClientRect();
    plot.canvas.dispatchEvent(new MouseEvent(type, { clientX: box.left + x, clientY: box.top + y, bubbles: true }));
    return element("tip").hidden ? "nothing" : element("tip").innerText.replaceAll("\n", " | ");
  }'

expect 0 "$neap" graph "${small[@]}" -o g.json
expect 0 "$neap" plan g.json --budget 85% -o p.json
expect 0 "$neap" show g.json p.json --budget 90% -o show.html --json
peak_position=$(field peak_position) peak_node=$(field peak_node)
! grep -E 'https?://' show.html | grep -v 'http://www.w3.org/2000/svg' || fail "the page names another place"

# What the page says of the peak and of each kind is what the table says, to the last digit.
visit show.html '
  report("summary", element("plan-summary").textContent);
  for (const line of element("kinds").rows) report("row", [...line.cells].map((cell) => cell.textContent).join(" ").trim());'
expect 0 "$neap" show g.json p.json --budget 90%
peak=$(sed -n 's/^\(peak [0-9.]* [KMG]*i*B\):.*/\1/p' out)
case $(reported summary) in
  *": $peak, "*) ;;
  *) fail "the page says: $(reported summary), not $peak" ;;
esac
awk '/^kind/ { on = 1; next } on' out | tr -s ' ' | sed 's/ $//' | grep -v ' 0 B 0.0 % 0 B$' | sort >table.out
reported row | tail -n +2 | tr -s ' ' | sort >table.page
diff table.out table.page || fail "the table and the page differ"
expect 0 "$neap" show g.json p.json --budget 90% -o show.html --json

# Of the ten rectangles with the largest areas: which instance, what its middle has for a colour, what the tip says.
visit show.html "$pointer"'
  const plan = data.plans[0], ids = plan.first.map((_, i) => i).filter((i) => plan.from[i] <= plan.last[i]);
  const area = (i) => plan.bytes[i] * (plan.last[i] + 1 - plan.from[i]);
  report("instances", plan.first.length);
  report("positions", plan.schedule.length);
  report("rectangles", Number(map.canvas.dataset.rectangles) - ids.length);
  ids.sort((a, b) => area(b) - area(a));
  for (const i of ids.slice(0, 10)) {
    const x = xAt(map, (plan.from[i] + plan.last[i] + 1) / 2), y = yAt(map, plan.offset[i] + plan.bytes[i] / 2);
    const [red, green, blue] = map.context.getImageData(Math.floor(x), Math.floor(y), 1, 1).data;
    const hex = "#" + [red, green, blue].map((c) => c.toString(16).padStart(2, "0")).join("");
    report("colour", hex === color(kindVariables[plan.kind[i]]));
    report("tip", `${i} ${send(map, "mousemove", x, y)}`);
  }
  report("beside", send(map, "mousemove", 5, 5));
  const x = xAt(memory, plan.peak + 0.5);
  report("peak", send(memory, "mousemove", x, yAt(memory, plan.total[plan.peak] / 2)));
  const resident = plan.resident.reduce((sum, bytes) => sum + bytes);
  report("listed", plan.total.every((bytes, t) => instancesAt(t).reduce((sum, i) => sum + plan.bytes[i], resident) === bytes));
  memory.columns = 20; // fewer than there are positions: each column shows the highest of its own
  const columns = makeColumns(memory);
  report("columns", `${columns.length} ${columns.some((c) => c.at === plan.peak)} ` +
    columns.every((c) => plan.total.slice(c.from, c.to).every((bytes) => bytes <= plan.total[c.at])));
  send(map, "mousedown", xAt(map, 10), 50);
  send(map, "mousemove", xAt(map, 30), 50);
  send(map, "mouseup", xAt(map, 30), 50);
  report("closer", `${view.from} ${view.to} ${Number(map.canvas.dataset.rectangles) < ids.length}`);
  element("whole").click();
  report("whole", map.canvas.dataset.rectangles - ids.length);
'
same "$(reported instances)" "$(grep -o '"at"' p.json | wc -l)" "instances in the page and in the plan"
same "$(reported rectangles)" 0 "rectangles beyond the instances that have their own bytes"
same "$(reported colour | sort | uniq -c | tr -s ' ')" " 10 true" "colours of the rectangles"
while read -r index tip; do
  tensor=$("$json_field" "instances.$index.tensor" <p.json)
  at=$("$json_field" "instances.$index.at" <p.json) offset=$("$json_field" "instances.$index.offset" <p.json)
  if [ "$tensor" = -1 ]; then
    name="workspace of $("$json_field" "nodes.$("$json_field" "schedule.$at" <p.json).name" <g.json)"
  else
    name=$("$json_field" "tensors.$tensor.name" <g.json)
  fi
  case $tip in
    "$name | "*" at offset $offset | made at position $at by "*) ;;
    *) fail "hovering over instance $index, $name, says: $tip" ;;
  esac
done < <(reported tip)
same "$(reported tip | wc -l)" 10 "tips"
same "$(reported beside)" nothing "hovering beside the picture"
case $(reported peak) in
  *"position $peak_position: $peak_node"*) ;;
  *) fail "hovering over the peak says: $(reported peak)" ;;
esac
same "$(reported listed)" true "bytes of the tensors listed at each position"
same "$(reported columns)" "20 true true" "columns that stand for several positions"
same "$(reported closer)" "10 30 true" "after a drag"
same "$(reported whole)" 0 "rectangles of the whole step"

# The curve: every point of the CSV is there; one that opens shows its plan.
expect 0 "$neap" curve g.json --planner keep-all,chen-sqrt,rotor,evict,neap --points 4 -o curve.csv
expect 0 "$neap" curve g.json --planner keep-all,chen-sqrt,rotor,evict,neap --points 4 -o curve.html
visit curve.html "$pointer"'
  report("points", document.querySelectorAll("svg .point").length);
  report("bounds", [...document.querySelectorAll("svg text")].filter((t) => /no plan needs less|least budget/.test(t.textContent)).length);
  const opens = [...document.querySelectorAll("svg .opens")];
  report("opens", opens.length - data.plans.length);
  report("monotone", data.curve.points.every(([series, bytes, overhead], i) => i === 0 ||
    data.curve.points[i - 1][0] !== series || (data.curve.points[i - 1][1] < bytes && data.curve.points[i - 1][2] > overhead)));
  for (const mark of opens) {
    mark.dispatchEvent(new MouseEvent("click"));
    const plan = data.plans[mark.dataset.plan];
    report("opened", element("plan-summary").textContent.includes(plan.planner) && current() === plan &&
      Number(map.canvas.dataset.rectangles) === plan.first.filter((_, i) => plan.from[i] <= plan.last[i]).length &&
      mark.classList.contains("chosen"));
  }
  opens[0].dispatchEvent(new MouseEvent("mousemove", { clientX: 300, clientY: 200 }));
  report("point", element("tip").innerText.replaceAll("\n", " | "));
'
same "$(reported points)" "$(($(wc -l <curve.csv) - 1))" "points in the page and in the table"
same "$(reported bounds)" 2 "bounds that are marked"
same "$(reported opens)" 0 "points that open beyond the plans"
same "$(reported monotone)" true "a larger budget never costs more"
same "$(reported opened | sort -u)" true "points that open their plans"
case $(reported point) in
  *" of keeping everything | recomputation +"*) ;;
  *) fail "hovering over a point says: $(reported point)" ;;
esac
