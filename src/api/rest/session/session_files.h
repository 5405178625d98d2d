#pragma once
#include "api/call.h"
#include "api/fields.h"
#include "session/sessions.h"

/*
 * "files" of a request about a session: an array of {"path", "content" or "content_base64", "mode"},
 * or an object from paths to texts. Everything decoded belongs to the body.
 */
struct atoll_rest_session_files {
    const struct atoll_session_file *files;
    size_t count;
};

/* value NULL: none. INVALID_ARGUMENT. */
int atoll_rest_session_files_decode(const json_t *value, struct atoll_body *body,
                                    struct atoll_rest_session_files *ret,
                                    struct atoll_error *err) ATOLL_MUST_CHECK;
/* One file of that shape, given as the fields of the body itself. */
int atoll_rest_session_file_decode(const json_t *object, const char *where, struct atoll_body *body,
                                   struct atoll_session_file *ret,
                                   struct atoll_error *err) ATOLL_MUST_CHECK;

/* The working directory of a session that lives, the one of the call: listed under that key, or the
 * file params.path of it (sessions_files.c). */
void atoll_rest_session_files_list(struct atoll_api_call *call, const char *key);
void atoll_rest_session_files_send(struct atoll_api_call *call);
