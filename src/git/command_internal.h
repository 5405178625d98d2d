#pragma once
#include "git/command.h"

/* Shared by command.c, work.c and records.c: how the command of an operation is made. */
struct atoll_git_maker {
    const char *name;   /* NULL: the other table has the operation */
    bool network;       /* it talks to a server */
    const char *script; /* NULL: git with arguments */
    int (*fill)(const struct atoll_git_request *r, struct atoll_git_command *c,
                struct atoll_error *err);
};
/* By operation. work.c: the work tree and other repositories. */
extern const struct atoll_git_maker atoll_git_work[ATOLL_GIT_OPS];
/* records.c: branches, remotes, tags, stashes and configuration. */
extern const struct atoll_git_maker atoll_git_records[ATOLL_GIT_OPS];

static inline void atoll_git_add(struct atoll_git_command *c, const char *arg)
{
    c->argv[c->argc++] = arg;
}

static inline void atoll_git_add_if(struct atoll_git_command *c, bool condition, const char *arg)
{
    if (condition)
        atoll_git_add(c, arg);
}

static inline const char *atoll_git_or(const char *text, const char *other)
{
    return text ? text : other;
}

/* command.c */
/* Ownership of the text passes; aborts for NULL. */
const char *atoll_git_keep(struct atoll_git_command *c, char *text);
void atoll_git_add_number(struct atoll_git_command *c, const char *before, uint32_t number,
                          const char *after);
/* INVALID_ARGUMENT: "NAME WHAT". */
int atoll_git_refuse(struct atoll_error *err, const char *name, const char *what);
int atoll_git_need(struct atoll_error *err, const char *name, const char *value) ATOLL_MUST_CHECK;
