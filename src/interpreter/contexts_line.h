#pragma once
#include "base/buf.h"
#include "base/shares.h"
#include "interpreter/contexts.h"

/*
 * Lines of interpreter drivers: cutting them out of a stream, and checking them. They are written by
 * code we do not trust. Pure; nothing here knows about processes.
 */

#define ATOLL_LINE_MAX ((size_t)32 * 1024 * 1024)
/* What unfinished lines of all contexts may hold together; beyond it, whose contexts have more than
 * their part has only short ones taken. */
#define ATOLL_LINES_SHARED_MAX ((size_t)256 * 1024 * 1024)
#define ATOLL_LINE_SHORT_MAX ((size_t)1024 * 1024)

struct atoll_lines {
    struct atoll_buf buf;        /* what was not cut yet */
    size_t taken;                /* of the line given last, dropped with the next call */
    size_t searched;             /* bytes without a newline */
    bool skipping;               /* inside a line that was too long */
    bool too_long;               /* there was one, and nobody has been told */
    struct atoll_shares *shares; /* borrowed: bytes in all of them, by: */
    char owner[ATOLL_SHARE_NAME_MAX];
};

void atoll_lines_init(struct atoll_lines *lines, struct atoll_shares *shares, const char *owner);
void atoll_lines_done(struct atoll_lines *lines);
/* They are somebody else's from now on, with what is in them. */
void atoll_lines_give(struct atoll_lines *lines, const char *owner);
/* Takes the next bytes; only after atoll_lines_next() said 0. -ENOMEM: they are lost. */
int atoll_lines_add(struct atoll_lines *lines, const uint8_t *bytes, size_t n) ATOLL_MUST_CHECK;
/* 1: a line without its newline, good until the next call; 0: none is complete; -EMSGSIZE: one was
 * left out because it was too long. */
int atoll_lines_next(struct atoll_lines *lines, const char **ret_line,
                     size_t *ret_len) ATOLL_MUST_CHECK;

enum atoll_driver_word {
    ATOLL_DRIVER_NOISE, /* no line of the protocol */
    ATOLL_DRIVER_OTHER, /* one that answers another request */
    ATOLL_DRIVER_READY,
    ATOLL_DRIVER_LINE, /* for whoever waits for the answer */
    ATOLL_DRIVER_END,
    ATOLL_DRIVER_NO_MEMORY, /* it cannot be known */
};

struct atoll_line {
    enum atoll_context_line_kind kind; /* LINE */
    char *json;                        /* LINE: owned; one object, ASCII */
    size_t len;
};

/* What a line says about the request `id`; only fields the protocol has get into ret->json. */
enum atoll_driver_word atoll_line_parse(const char *bytes, size_t n, uint64_t id,
                                        struct atoll_line *ret);
void atoll_line_done(struct atoll_line *line);

/* Lines of our own; from malloc. Text that is no UTF-8 is replaced. */
char *atoll_line_make_error(const char *name, const char *value, const char *traceback);
char *atoll_line_make_stderr(const char *text);
/* An error line under another name and value, with the traceback it has. */
char *atoll_line_rename_error(const char *json, size_t n, const char *name, const char *value);
