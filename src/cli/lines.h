#pragma once
#include "base/buf.h"

/*
 * Splits a streamed answer into lines: atoll_cli_lines_write() is the write callback of a transfer whose arg
 * is this struct.
 */
struct atoll_cli_lines {
    struct atoll_buf rest; /* the beginning of the next line */
    /* Gets each line without its newline; `text` ends with NUL and is borrowed. */
    void (*take)(void *arg, const char *text, size_t n);
    void *arg;
};

void atoll_cli_lines_init(struct atoll_cli_lines *lines, size_t max_bytes,
                          void (*take)(void *arg, const char *text, size_t n), void *arg);
void atoll_cli_lines_done(struct atoll_cli_lines *lines);
int atoll_cli_lines_write(void *arg, const void *bytes, size_t n);
