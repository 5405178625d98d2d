#pragma once
#include "base/buf.h"

/*
 * Placeholders for secrets in the header values of a policy: "Bearer ${secret.NAME}". E2B's form
 * "${e2b.secrets.NAME}" is the same with the name in lower case. Other texts, such as "${HOME}", are
 * left as they are. Pure.
 */
#define ATOLL_SECRET_NAME_MAX 64

/* Whether a secret can have this name: 1 to 64 characters of A-Z a-z 0-9 _ . -, but not "." and "..". */
bool atoll_secret_is_name(const char *text);

/* Finds the first placeholder in `text`: returns its first character, or NULL. *ret_end is set behind
 * it. name is "" when the placeholder has no end, or not the name of a secret. */
const char *atoll_placeholder_find(const char *text, const char **ret_end,
                                   char name[static ATOLL_SECRET_NAME_MAX + 1]);

/* Appends `text` with the values of its placeholders, which get() returns. -ENOENT: get() returned NULL,
 * or a placeholder has no valid name. -ENOBUFS, -ENOMEM. On failure, out may have a part of the text. */
int atoll_placeholder_fill(const char *text, const char *(*get)(void *arg, const char *name),
                           void *arg, struct atoll_buf *out) ATOLL_MUST_CHECK;
