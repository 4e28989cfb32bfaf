# cmake -Dinput=FILE -Doutput=FILE.c -Dname=NAME -P embed.cmake: the file as a C string `const char NAME[]`.
file(READ ${input} bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
file(WRITE ${output} "extern const char ${name}[];\nconst char ${name}[] = {\n${bytes}0};\n")
