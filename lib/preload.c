/*
 * The library that replaces the process's malloc. The public API is included
 * rather than linked, so that both live in one translation unit.
 */
#include "api.c"
