# A table from training to predictions: classes with their names, values in their units, and no label needed.
source "$(dirname "$0")/common.bash"

awk 'BEGIN { print "size,town,label"; for (i = 0; i < 240; i++) { x = (i * 37 % 101) / 10; t = i % 2 ? "Ulm" : "Rome, It";
  print x ",\"" t "\"," ((x > 5) == (i % 2) ? "dear" : "cheap") } }' >homes.csv
expect 0 "$neap" train --model mlp-32x32 --data csv:homes.csv --batch 16 --epochs 40 --lr 0.05 --out run --json
awk "BEGIN { exit !($(field test_accuracy) > 0.9) }" || fail "a rule of two columns is not learned: $(field test_accuracy)"
printf 'size,town\n9,"Ulm"\n9,"Rome, It"\n1,Ulm\n' >asked.csv
expect 0 "$neap" predict run --data csv:asked.csv -o answer.csv
[ "$(cut -d, -f1,2 answer.csv | tr '\n' ' ')" = "record,prediction 1,dear 2,cheap 3,cheap " ] || fail "$(cat answer.csv)"
[ "$(head -1 answer.csv)" = "record,prediction,probability,cheap,dear" ] || fail "$(head -1 answer.csv)"
expect 0 "$neap" predict run --data csv:asked.csv -o answer.jsonl
grep -q '^{"record":"1","prediction":"dear","probability":' answer.jsonl || fail "$(cat answer.jsonl)"
expect 0 "$neap" predict run --data csv:homes.csv -o all.npy --json
[ "$(field records)" = 240 ] || fail "it takes $(field records) records"
awk "BEGIN { exit !($(field accuracy) > 0.9) }" || fail "the accuracy is $(field accuracy)"
printf 'size\n9\n' >short.csv
expect 1 "$neap" predict run --data csv:short.csv -o none.csv
says "short.csv: column 'town' of the training part is missing"
printf 'size,town\n9,Ulm\n,Ulm\n' >gap.csv
expect 1 "$neap" predict run --data csv:gap.csv -o none.csv
says "gap.csv: line 3, column 'size': has no value"
[ ! -e none.csv ] || fail "none.csv was written"
expect 2 "$neap" predict --model mlp-8 --weights run/weights-*.safetensors -o none.csv
says "--data is missing"

# Values come back in the data's units.
awk 'BEGIN { print "a,b,price"; for (i = 0; i < 200; i++) print i % 20 "," i % 7 "," 1000 * (i % 20) + 50000 }' >prices.csv
expect 0 "$neap" train --model mlp-32 --data csv:prices.csv,task=regression --batch 16 --epochs 60 --lr 0.02 --out values --json
awk "BEGIN { exit !($(field test_r2) > 0.95 && $(field test_mae) < 1500) }" || fail "R2 $(field test_r2), MAE $(field test_mae)"
[ "$(field accuracy)" = null ] || fail "values have an accuracy of $(field accuracy)"
printf 'a,b\n10,3\n' >one.csv
expect 0 "$neap" predict values --data csv:one.csv -o one_answer.csv
awk -F, 'NR == 2 && $2 > 57000 && $2 < 63000 { good = 1 } END { exit !good }' one_answer.csv || fail "$(cat one_answer.csv)"
expect 0 "$neap" evaluate values --json
awk "BEGIN { exit !($(field test_r2) > 0.95) }" || fail "evaluate says R2 $(field test_r2)"

# The errors are those of the predictions that are written.
expect 0 "$neap" train --model mlp-8 --data csv:prices.csv,task=regression,test=prices.csv --batch 16 --epochs 2 --lr 0.02 --out errors --metrics errors.jsonl --json
figures="$(field test_mae) $(field test_rmse) $(field test_r2)"
expect 0 "$neap" predict errors --data csv:prices.csv -o errors.csv
paste -d, errors.csv prices.csv | awk -F, -v figures="$figures" '
  function near(a, b) { return a - b < 1e-4 * (b < 0 ? -b : b) && b - a < 1e-4 * (b < 0 ? -b : b) }
  NR > 1 { error = $2 - $5; all += error < 0 ? -error : error; squares += error * error; sum += $5; sum_squares += $5 * $5; n++ }
  END { split(figures, f, " "); spread = sum_squares - sum * sum / n
    exit !(near(f[1], all / n) && near(f[2], sqrt(squares / n)) && near(f[3], 1 - squares / spread)) }' || fail "not the errors of the predictions: $figures"
grep -q '"test_rmse"' errors.jsonl || fail "the metrics have no test_rmse"
expect 0 "$neap" evaluate errors --json
same "$(field test_mae) $(field test_rmse) $(field test_r2)" "$figures" "the errors of the evaluation"

# A head that is larger than the data's classes: the rest have numbers as names, and probabilities too.
expect 0 "$neap" train --model mlp-8 --data csv:homes.csv --classes 4 --batch 16 --steps 3 --out larger
expect 0 "$neap" predict larger --data csv:asked.csv -o larger.csv
[ "$(head -1 larger.csv)" = "record,prediction,probability,cheap,dear,2,3" ] || fail "$(head -1 larger.csv)"
awk -F, 'NR > 1 { sum = $4 + $5 + $6 + $7; if (sum < 0.9999 || sum > 1.0001) bad = 1 } END { exit bad || NR != 4 }' larger.csv || fail "$(cat larger.csv)"
expect 0 "$neap" predict larger --data csv:asked.csv -o larger.jsonl
grep -q '"3":' larger.jsonl || fail "$(cat larger.jsonl)"

# What was read as what: a row each of --json, a line each fate for people.
# row OBJECT BECAME COUNT: the report has it.
row() { grep -qF "{\"object\": \"$1\", \"became\": \"$2\", \"count\": $3," out || fail "no row '$1', '$2', $3: $(cat out)"; }
awk 'BEGIN { print "day; temp ;ok;note;town;label"; for (i = 0; i < 60; i++)
  printf "2026-03-%02d;%d,%d;%s;;%s;%s\n", i % 28 + 1, i % 13, i % 10, i % 2 ? "true" : "False", i % 3 ? "Ulm " : " Rome", (i % 13 > 6 ? "1,0" : "0") }' >odd.csv
expect 1 "$neap" data csv:odd.csv
says "odd.csv: line 2, column 'temp': '0,0' has a decimal comma; say so (,decimal=comma)"
sed -i '30s/;[0-9]*,[0-9]*;/;broken;/; 31s/;[0-9]*,[0-9]*;/;;/' odd.csv
expect 1 "$neap" train --model mlp-8 --data csv:odd.csv,decimal=comma --batch 8 --steps 1
says "odd.csv: line 30, column 'temp': 'broken' is not a number, unlike the column's others"
says "odd.csv: line 31, column 'temp': has no value (got '')"
expect 0 "$neap" train --model mlp-8 --data "csv:odd.csv,decimal=comma,missing=broken,ignore=day" --batch 8 --steps 3 --out odd-run --json
row day "left out, as you say" null
row temp numbers 58
row temp "gaps, filled with the mean" 2
row ok "words, true or false" 2
row note "left out, empty" 60
row town words 2
row label "the label, of classes" 2
printf 'town;temp;ok;more\nUlm;1,5;true;1\nParis;broken;true;2\nRom;2;true;3\n' >asked.csv
expect 0 "$neap" predict odd-run --data csv:asked.csv -o answer.csv --json
row town "unseen words, taken as none" 2
row more "left out, not learned from" null
expect 0 "$neap" predict odd-run --data csv:asked.csv -o answer.csv
grep -q "unseen words, taken as none: town (2)" out || fail "$(cat out)"
grep -q "town: 'Paris' in line 3 and others was not seen in training" out || fail "$(cat out)"

# A point where decimal=comma is given, a first line of numbers alone, lines of other lengths, dates, classes and columns
# that differ in case alone.
awk 'BEGIN { print "x,y,label"; for (i = 0; i < 60; i++) printf "%.3f,%d,%d\n", i / 7 + 1.288, i % 5, i % 2 }' >point.csv
expect 1 "$neap" data csv:point.csv,decimal=comma
says "point.csv: line 2, column 'x': '1.288' has a point, but decimal=comma is given, and no cell of the column has a comma; leave decimal=comma out"
expect 1 "$neap" data csv:point.csv,decimal=comma,task=regression,label=x
says "'1.288' is not a number; task=regression needs numbers; decimal=comma is given: leave it out"
sed '1d' point.csv >headless.csv
expect 1 "$neap" data csv:headless.csv
says "headless.csv: line 1: is all numbers ('1.288', '0', ...), but it names the columns; add a line of names above it"
sed '1s/.*/0,1,2/' point.csv >counted.csv
expect 0 "$neap" data csv:counted.csv --json
row "the first line" "names, though numbers" 3
(cat point.csv && printf '1,2\n1,2,3,4\n') >lengths.csv
expect 1 "$neap" data csv:lengths.csv
grep -qF "line 62: has 2 fields, but the header has 3; add the missing ones (an empty cell needs its comma, too), or remove the line" out ||
  fail "$(cat out)"
grep -qF "line 63: has 4 fields, but the header has 3; put cells with a comma into quotes, or remove the line" out || fail "$(cat out)"
awk 'BEGIN { print "day,x,label"; split("False false TRUE no", l, " ");
  for (i = 0; i < 200; i++) print 1930 + i % 84 "-01-02," i "," l[i % 4 + 1] }' >spelled.csv
expect 0 "$neap" data csv:spelled.csv
grep -qF "day: they become 84 words: leave the column out (,ignore=day), or make it a number" out || fail "$(cat out)"
grep -qF "classes that differ in upper and lower case alone: False, false" out || fail "$(cat out)"
grep -qF "False: is another class than 'false'; if they are one, spell them alike" out || fail "$(cat out)"
! grep -q "TRUE: is another class" out || fail "a class is like none: $(cat out)"
expect 0 "$neap" train --model mlp-4 --data csv:point.csv --batch 8 --steps 1 --out point-run
sed '1s/label/Label/' point.csv >other.csv
expect 0 "$neap" predict point-run --data csv:other.csv -o other-answer.csv --json
row Label "left out, unknown" null
grep -qF "training had no such column, but the label 'label', which differs in upper and lower case alone" out || fail "$(cat out)"
sed '1s/x/X/' point.csv >other.csv
expect 1 "$neap" predict point-run --data csv:other.csv -o none.csv
says "column 'x' of the training part is missing; a name that differs in upper and lower case alone is another one"

# Seconds since 1970 keep their differences: as features, and as values with their R2 (86 % and 0.95 when rounded to f32).
awk 'BEGIN { print "t,label"; for (i = 0; i < 400; i++) { s = i * 7919 % 1000; print 1700000000 + s "," (s > 499) } }' >seconds.csv
expect 0 "$neap" train --model mlp-16 --data csv:seconds.csv,test=seconds.csv --batch 16 --epochs 60 --lr 0.1 --out seconds --json
awk "BEGIN { exit !($(field test_accuracy) > 0.985) }" || fail "seconds are told apart in $(field test_accuracy)"
awk 'BEGIN { print "x,t"; for (i = 0; i < 200; i++) { x = i * 37 % 101; print x "," 1700000000 + 2 * x } }' >when.csv
expect 0 "$neap" train --model mlp-16 --data csv:when.csv,task=regression,test=when.csv --batch 16 --epochs 200 --optimizer adamw --lr 0.01 --out when --json
awk "BEGIN { exit !($(field test_r2) > 0.999 && $(field test_mae) < 3) }" || fail "R2 $(field test_r2), MAE $(field test_mae)"
expect 0 "$neap" predict when --data csv:when.csv -o when-answers.csv
paste -d, when-answers.csv when.csv | awk -F, 'NR > 1 { e = $2 - $4; if (e < -20 || e > 20) bad = 1 } END { exit bad }' || fail "answers are rounded: $(head -3 when-answers.csv)"

# Classes that double precision does not tell apart are refused, and words where the user says so.
printf 'x,label\n1,9007199254740992\n2,9007199254740993\n3,9007199254740992\n4,9007199254740993\n5,9007199254740992\n' >large.csv
expect 1 "$neap" data csv:large.csv,task=classes
says "large.csv: column 'label': the classes 9007199254740992 and 9007199254740993 are one number in double precision"
expect 0 "$neap" data csv:large.csv,task=classes,words=label
grep -q "the label, of classes: label (2)" out || fail "$(cat out)"

# Commas and semicolons that are equally frequent are settled by the second line or by decimal commas, else refused.
printf 'size, m2;weight, kg;label\n0,5;1,25;0\n0,7;2,25;1\n0,5;1,25;0\n0,7;2,25;1\n' >tied.csv
expect 1 "$neap" data csv:tied.csv
says "tied.csv: line 1: ',' and ';' are equally frequent"
expect 0 "$neap" data csv:tied.csv,decimal=comma
grep -qF "numbers: size, m2 (4), weight, kg (4)" out || fail "$(cat out)"
printf 'a, b;c;d, e\n1;2;0\n2;3;1\n3;4;0\n' >settled.csv
expect 0 "$neap" data csv:settled.csv
grep -qF "numbers: a, b (3), c (3)" out || fail "$(cat out)"

# Lines that end with several carriage returns; names that stand twice; many columns, whose names are not compared in pairs.
printf 'a,label\r\r\n0.5,0\r\r\n1.5,1\r\r\n2.5,"0"\r\r\n3,1\r\r\n' >returns.csv
expect 0 "$neap" data csv:returns.csv
grep -qF "numbers: a (4)" out && grep -qF "the label, of classes: label (2)" out || fail "$(cat out)"
printf 'b,a,label,a\n1,2,0,3\n2,3,1,4\n' >twice.csv
expect 1 "$neap" data csv:returns.csv,test=twice.csv
says "twice.csv: line 1: two columns are named 'a'; rename one"
{
  seq -s , -f 'c%.0f' 60000 | sed 's/$/,label/'
  for i in 0 1 2 3; do seq -s , $i $((i + 59999)) | sed "s/\$/,$((i % 2))/"; done
} >wide.csv
expect 0 timeout 20 "$neap" data csv:wide.csv --json
same "$(field training_records) $(field error)" "3 null" "the records of a wide table"
expect 1 "$neap" data csv:gone.csv --json
same "$(field error)" "gone.csv: cannot be opened: No such file or directory" "the error in JSON"

# Columns of amounts with something beside their digits are words, and the report says so.
printf 'price,share,code,label\n$5,12 %%,a1,0\n$6,13 %%,b2,1\n$7,12 %%,c3,0\n$5,14 %%,d4,1\n' >amounts.csv
expect 0 "$neap" data csv:amounts.csv --json
grep -qF "words such as '\$5': if they are amounts" out && grep -qF "words such as '12 %'" out || fail "$(cat out)"
! grep -qF "words such as 'a1'" out || fail "codes are no amounts: $(cat out)"
