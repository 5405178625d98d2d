#pragma once
#include "base/buf.h"
#include "base/shares.h"
#include "interpreter/contexts.h"

/*
 * Lines of interpreter drivers: splitting a stream into lines, and checking them. They come from
 * untrusted code. Pure; independent of processes.
 */

#define ATOLL_LINE_MAX ((size_t)32 * 1024 * 1024)
/* Memory for unfinished lines of all contexts together. Beyond it, a tenant that uses more than its
 * share may send short lines only. */
#define ATOLL_LINES_SHARED_MAX ((size_t)256 * 1024 * 1024)
#define ATOLL_LINE_SHORT_MAX ((size_t)1024 * 1024)

struct atoll_lines {
    struct atoll_buf buf;        /* input that was not split yet */
    size_t taken;                /* length of the line returned last, dropped by the next call */
    size_t searched;             /* bytes known to contain no newline */
    bool skipping;               /* inside a line that was too long */
    bool too_long;               /* a line was too long, and that was not reported yet */
    struct atoll_shares *shares; /* borrowed: bytes of all contexts, by owner */
    char owner[ATOLL_SHARE_NAME_MAX];
};

void atoll_lines_init(struct atoll_lines *lines, struct atoll_shares *shares, const char *owner);
void atoll_lines_done(struct atoll_lines *lines);
/* Changes the owner to whom the buffered bytes count. */
void atoll_lines_set_owner(struct atoll_lines *lines, const char *owner);
/* Adds input; call only after atoll_lines_next() returned 0. -ENOMEM: the input is lost. */
int atoll_lines_add(struct atoll_lines *lines, const uint8_t *bytes, size_t n) ATOLL_MUST_CHECK;
/* 1: a line without its newline, valid until the next call; 0: no complete line; -EMSGSIZE: a line
 * was dropped because it was too long. */
int atoll_lines_next(struct atoll_lines *lines, const char **ret_line,
                     size_t *ret_len) ATOLL_MUST_CHECK;

enum atoll_line_type {
    ATOLL_DRIVER_NOISE, /* not a line of the protocol */
    ATOLL_DRIVER_OTHER, /* answers another request */
    ATOLL_DRIVER_READY,
    ATOLL_DRIVER_FAILED, /* instead of ready: the interpreter cannot be used */
    ATOLL_DRIVER_LINE,   /* output or result of the request */
    ATOLL_DRIVER_END,
    ATOLL_DRIVER_NO_MEMORY, /* the line could not be parsed for lack of memory */
};

struct atoll_line {
    enum atoll_context_line_kind kind; /* set with LINE */
    /* Owned. With LINE: one object in ASCII; with FAILED: why, as text. */
    char *json;
    size_t len;
};

/* Parses a line that may answer the request `id`. ret->json contains only fields of the
 * protocol. */
enum atoll_line_type atoll_line_parse(const char *bytes, size_t n, uint64_t id,
                                      struct atoll_line *ret);
void atoll_line_done(struct atoll_line *line);

/* Lines made by the daemon, malloced. Text that is not UTF-8 is replaced. */
char *atoll_line_make_error(const char *name, const char *value, const char *traceback);
char *atoll_line_make_stderr(const char *text);
/* Adds what atoll_command_hint() says to an error line, which it takes and returns. */
char *atoll_line_hint_error(char *json);
/* Copies an error line with another name and value; keeps its traceback. */
char *atoll_line_rename_error(const char *json, size_t n, const char *name, const char *value);
