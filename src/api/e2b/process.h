#pragma once
#include "api/e2b/envd.h"
#include "api/e2b/plane.h"

/*
 * Processes of envd are execs of the engine. What only these clients know of them, a tag and the
 * variables they were given, is kept in memory beside.
 */

/* The process a message selects by pid or tag: one that runs or, with also_ended, ended a moment ago.
 * NULL fills *err. Good until control goes back to the loop. */
struct atoll_exec *atoll_process_find(struct atoll_api_call *call, const json_t *message,
                                      bool also_ended, struct atoll_error *err);

/* Whether that can select it no more: it ended a while ago. */
bool atoll_process_is_over(const struct atoll_exec_view *view);

/* process_stream.c: answers the call with the process's output, from its start or from now on, to its
 * end. timeout_ms: the stream ends then, with an error; 0: none. is_start: the process has been given
 * that time itself. */
void atoll_process_stream(struct atoll_api_call *call, struct atoll_exec *exec, bool is_start,
                          uint32_t timeout_ms);
/* Pure, for tests: the "end" event of a result. */
void atoll_process_write_end(struct atoll_json_out *out, const struct atoll_exec_result *result);

/* process_notes.c */
struct atoll_process_note {
    struct atoll_list node;
    char exec_id[17];
    char *tag;    /* owned, or NULL */
    json_t *envs; /* owned, or NULL */
};
/* Copies the tag; takes a reference of envs. Either may be NULL. */
void atoll_process_note(struct atoll_e2b_plane *plane, const struct atoll_exec_view *exec,
                        const char *tag, const json_t *envs);
/* NULL when there is none. */
const struct atoll_process_note *atoll_process_noted(const struct atoll_e2b_plane *plane,
                                                     const char *exec_id);
