#pragma once
#include "git/git.h"

/*
 * URLs of repositories. Pure.
 */
#define ATOLL_GIT_URL_MAX 2048
#define ATOLL_GIT_SECRET_MAX 4096 /* of a user name or password */

struct atoll_git_url {
    char text[ATOLL_GIT_URL_MAX];   /* without user name and password */
    bool http;                      /* http or https */
    char server[ATOLL_GIT_URL_MAX]; /* http: "https://host:port"; else "" */
    char name[ATOLL_GIT_NAME_MAX];  /* of the directory that a clone makes; "": unknown */
    /* From the URL, decoded; "" if it has none. */
    char username[ATOLL_GIT_SECRET_MAX], password[ATOLL_GIT_SECRET_MAX];
};

/* Splits a URL, an scp-like address (user@host:path, kept as it is) or a path. INVALID_ARGUMENT. */
int atoll_git_url_split(const char *text, struct atoll_git_url *ret,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* Whether a user name, password or host can be given to git: no control characters. */
bool atoll_git_is_credential(const char *text);
