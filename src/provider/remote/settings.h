#pragma once
#include <curl/curl.h>
#include "base/error.h"

/*
 * Settings that every provider of a service has: addresses, the key, further headers. Error texts
 * begin with `provider`; INVALID_ARGUMENT.
 */

/* A copy of `given`, or of `otherwise` if it is NULL or "". */
int atoll_remote_take_text(const char *given, const char *otherwise, char **ret,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* An http or https URL without a trailing slash, and without a user or a query. */
int atoll_remote_take_url(const char *provider, const char *setting, const char *given, char **ret,
                          struct atoll_error *err) ATOLL_MUST_CHECK;

/* Where the key of a service is; the first that is set counts. */
struct atoll_remote_key {
    const char *value; /* the key itself */
    const char *file;  /* a file with only the key */
    const char *env;   /* an environment variable with the key */
};
int atoll_remote_take_key(const char *provider, const struct atoll_remote_key *key, char **ret,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Erases and frees a key. */
void atoll_remote_key_free(char *key);

struct atoll_remote_header_setting {
    const char *name, *value;
};
/* Appends the headers to the list, after checking them. */
int atoll_remote_take_headers(const char *provider,
                              const struct atoll_remote_header_setting *headers, size_t count,
                              struct curl_slist **list, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Whether the text can be the value of a header: one line without control characters. */
bool atoll_remote_is_header_text(const char *text);
