#pragma once
#include "base/list.h"
#include "engine/engine.h"

/*
 * The trial of a new version: a sandbox is made from it, a shell looks at its user and home, and its start
 * command runs there once (engine/template/start.h). The sandbox is destroyed before done is called.
 *
 * The result is a report for the version, a JSON object:
 *   {"ok": true, "checks": [{"name": "agent", "result": "ok", "ms": 9}, {"name": "sh", "result": "ok"},
 *    {"name": "user", "result": "ok", "detail": "root"}, {"name": "home", …}, {"name": "start", …, "ms": 1200},
 *    {"name": "ports", "result": "ok", "detail": "8080"}]}
 * result: "ok", "failed" (then ok is false), or "absent": an image without /bin/sh can be used all the same.
 * "start" and "ports" are there if the version has a start command; the ports are those that it listens on.
 *
 * Thread: the loop's. done is called exactly once, from the loop or before the call returns. An error
 * means that the version cannot be used: its start command failed.
 */
struct atoll_trial_request {
    const char *tenant; /* whose sandbox it is, if the version has commands */
    const char *version_id;
    const char *reference;             /* of the version */
    const char *start_cmd, *ready_cmd; /* or NULL */
    enum atoll_network network;
    const char *policy; /* as in atoll_options.network_json */
};
typedef void atoll_trial_fn(void *arg, const char *report_json, const struct atoll_error *error);
void atoll_trial_run(struct atoll_engine *engine, const struct atoll_trial_request *request,
                     atoll_trial_fn *done, void *arg);
/* Frees memory, when the engine is freed. */
void atoll_trials_done(struct atoll_list *trials);
