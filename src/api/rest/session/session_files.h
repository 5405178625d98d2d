#pragma once
#include "api/call.h"
#include "api/fields.h"
#include "session/sessions.h"

/*
 * "files" in a request about a session: an array of {"path", "content" or "content_base64",
 * "mode"}, or an object that maps paths to texts. All decoded values belong to the body.
 */
struct atoll_rest_session_files {
    const struct atoll_session_file *files;
    size_t count;
};

/* value NULL: no files. INVALID_ARGUMENT. */
int atoll_rest_session_files_decode(const json_t *value, struct atoll_body *body,
                                    struct atoll_rest_session_files *ret,
                                    struct atoll_error *err) ATOLL_MUST_CHECK;
/* Decodes one file of that form, whose fields are those of `object`. */
int atoll_rest_session_file_decode(const json_t *object, const char *where, struct atoll_body *body,
                                   struct atoll_session_file *ret,
                                   struct atoll_error *err) ATOLL_MUST_CHECK;

/* The working directory of the call's session: a list under `key`, or the file params.path in it
 * (sessions_files.c). */
void atoll_rest_session_files_list(struct atoll_api_call *call, const char *key);
void atoll_rest_session_files_send(struct atoll_api_call *call);
