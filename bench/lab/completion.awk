# Fills completion.bash.in; read after options.def and main.c.

/^#define HAK_WORDS_/ {
	words = $3
	gsub(/"/, "", words)
	gsub(/\|/, " ", words)
	words_of[substr($2, length("HAK_WORDS_") + 1)] = words
}

/^HAKMEM_OPTION\(/ {
	split($0, part, /[(,] */)
	gsub(/"/, "", part[3])
	names = names (names ? " " : "") part[3]
	if (part[4] == "BOOL")
		add_values(part[3], "0 1")
	if (part[4] == "ENUM")
		add_values(part[3], words_of[part[2]])
	if (part[3] == "HAKMEM_STATS")
		add_values("--stats", "json")
}

/^\t\{"[a-z]+", hak_/ {
	split($0, part, /"/)
	subcommands = subcommands (subcommands ? " " : "") part[2]
}

function add_values(name, values)
{
	values_of_all = values_of_all (values_of_all ? "\n" : "") \
		"\t" name ") echo \"" values "\" ;;"
}

FILENAME ~ /completion\.bash\.in$/ {
	gsub(/@names@/, names)
	gsub(/@subcommands@/, subcommands)
	gsub(/@values@/, values_of_all)
	print
}
