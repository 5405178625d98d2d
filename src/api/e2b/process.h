#pragma once
#include "api/e2b/envd.h"
#include "api/e2b/plane.h"

/*
 * Processes of envd are execs of the engine. The tag and the variables of a process, which only
 * these clients use, are kept in memory in addition.
 */

/* The process that a message selects by pid or tag: one that runs or, with also_ended, ended
 * recently. NULL: *err is set. Valid until control returns to the loop. */
struct atoll_exec *atoll_process_find(struct atoll_api_call *call, const json_t *message,
                                      bool also_ended, struct atoll_error *err);

/* Whether a process ended too long ago to be selected. */
bool atoll_process_is_over(const struct atoll_exec_view *view);

/* process_stream.c: answers the call with the output of a process until it ends, from its start
 * or from now on. timeout_ms: the stream ends with an error after this time; 0: no timeout.
 * is_start: the process itself has this timeout. */
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
/* Stores a note about an exec. Copies the tag; takes a reference to envs. Either may be NULL. */
void atoll_process_note(struct atoll_e2b_plane *plane, const struct atoll_exec_view *exec,
                        const char *tag, const json_t *envs);
/* NULL if there is no note. */
const struct atoll_process_note *atoll_process_noted(const struct atoll_e2b_plane *plane,
                                                     const char *exec_id);
