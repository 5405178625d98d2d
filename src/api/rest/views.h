#pragma once
#include "api/json_out.h"
#include "engine/engine.h"

/* Objects of the engine as JSON. `key` as in api/json_out.h. */

/* Without its end: more members may follow. */
void atoll_view_sandbox_open(struct atoll_json_out *out, const char *key,
                             const struct atoll_sandbox *sandbox);
void atoll_view_sandbox(struct atoll_json_out *out, const char *key,
                        const struct atoll_sandbox *sandbox);
/* Limits that are 0 are left out; zeros: only those for which a request cannot ask for 0. */
void atoll_view_limits(struct atoll_json_out *out, const char *key,
                       const struct atoll_limits *limits, bool zeros);
/* "waived":[…] */
void atoll_view_waived(struct atoll_json_out *out, uint32_t waived);
/* Writes state, and cause if there is one; call it inside an open object. */
/* The mode and the policy of its network, without secrets. */
void atoll_view_network(struct atoll_json_out *out, const char *key,
                        const struct atoll_sandbox_view *v);
void atoll_view_state(struct atoll_json_out *out, const struct atoll_sandbox_view *sandbox);
/* A text that says how long the agent has not answered. */
const char *atoll_view_silence(const struct atoll_sandbox_view *sandbox, char *out, size_t cap);
/* The members of the stats; call it inside an open object. */
void atoll_view_stats(struct atoll_json_out *out, const struct atoll_sandbox_stats *stats,
                      const struct atoll_sandbox_view *sandbox);
void atoll_view_result(struct atoll_json_out *out, const char *key,
                       const struct atoll_exec_result *result);
void atoll_view_exec(struct atoll_json_out *out, const char *key, const struct atoll_exec *exec);
/* The same of a command that is not in memory. */
void atoll_view_exec_of(struct atoll_json_out *out, const char *key,
                        const struct atoll_exec_view *view);
void atoll_view_entry(struct atoll_json_out *out, const char *key,
                      const struct atoll_am_entry *entry);
void atoll_view_template(struct atoll_json_out *out, const char *key,
                         const struct atoll_template_view *view);
/* The same without the braces. */
void atoll_view_template_fields(struct atoll_json_out *out, const struct atoll_template_view *view);
/* "truncated":{…}: bytes of an output that the journal no longer has. */
void atoll_view_gap(struct atoll_json_out *out, const struct atoll_reader_item *gap);

/* "mtime" of a file, which can be any value. */
void atoll_view_mtime(struct atoll_json_out *out, int64_t unix_ms);
/* "stdout" or "stderr". */
const char *atoll_view_stream_name(int stream);
/* "SIGTERM"; out holds 16 bytes. */
const char *atoll_view_signal_name(int signo, char *out);
/* The signal number of a name, also of "TERM" and "15"; 0 if there is no such signal. */
int atoll_view_signal_number(const char *name);
