#pragma once
#include "engine/engine.h"

/*
 * The trial of a new version that has a start command: a sandbox is made from it, and its commands run
 * there once (engine/template/start.h). The sandbox is destroyed before done is called.
 *
 * Thread: the loop's. done is called exactly once, from the loop or before the call returns.
 */
struct atoll_trial_request {
    const char *tenant;    /* whose sandbox it is */
    const char *reference; /* of the version */
    const char *start_cmd, *ready_cmd;
    enum atoll_network network;
    const char *policy; /* as in atoll_options.network_json */
};
void atoll_trial_run(struct atoll_engine *engine, const struct atoll_trial_request *request,
                     atoll_done_fn *done, void *arg);
