#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "base/memory.h"
#include "base/switches.h"
#include "engine/build/build_internal.h"
#include "engine/build/trial.h"
#include "engine/json_memory.h"
#include "engine/template/version_sbom.h"
#include "engine/template/versions.h"

/*
 * The end of a build that has its layers: makes the version and tries it. The report of the trial is kept with
 * it. A version with a start command gets its tags only when the trial has succeeded; after a failed one it is
 * removed. A version that the template had already was tried when it was made.
 */

struct trying {
    struct atoll_engine *engine;
    char id[ATOLL_VERSION_ID_LEN + 1]; /* of the build, which may be canceled meanwhile */
};

static bool has_commands(const struct atoll_make *make)
{
    return make->start_cmd || make->ready_cmd;
}

static const char *tags_of(const struct atoll_make *make)
{
    return make->tags ? make->tags : "latest";
}

static void write_reference(const struct atoll_make *make, char *out, size_t cap)
{
    (void)snprintf(out, cap, "%s@sha256:%s", make->name, make->digest);
}

struct tagging {
    const struct atoll_make *make;
    const char *reference;
    struct atoll_error *err;
    int result;
};

static void tag_one(void *arg, const char *tag)
{
    struct tagging *t = arg;

    if (t->result == 0)
        t->result = atoll_template_tag(t->make->engine, t->make->owner, t->reference, tag, t->err);
}

static void end_ready(struct atoll_make *make)
{
    char reference[ATOLL_TEMPLATE_NAME_MAX + 100];
    struct atoll_error err;
    struct tagging t = {.make = make, .reference = reference, .err = &err};

    write_reference(make, reference, sizeof(reference));
    atoll_words_each(tags_of(make), tag_one, &t);
    if (t.result < 0)
        atoll_make_fail(make, &err, 0, 0);
    else
        atoll_make_end(make, ATOLL_MAKE_READY);
}

static void on_tried(void *arg, const char *report_json, const struct atoll_error *error)
{
    struct trying *t = arg;
    struct atoll_make *make = atoll_make_by_id(t->engine, t->id);
    char reference[ATOLL_TEMPLATE_NAME_MAX + 100];
    struct atoll_error err;

    /* The version has the id of the build. */
    if (!error && atoll_version_set_report(t->engine, t->id, report_json, &err) < 0)
        atoll_log(ATOLL_LOG_WARN, "report of a trial is not stored", "version", t->id, "error",
                  err.text, NULL);
    free(t);
    if (!make || make->state != ATOLL_MAKE_RUNNING)
        return;
    if (!error && has_commands(make)) {
        end_ready(make);
        return;
    }
    if (!error) {
        atoll_make_end(make, ATOLL_MAKE_READY);
        return;
    }
    write_reference(make, reference, sizeof(reference));
    atoll_templates_remove(make->engine, make->owner, reference, atoll_done_ignore, NULL);
    atoll_make_fail(make, error, 0, 0);
}

static void try_version(struct atoll_make *make)
{
    struct trying *t = atoll_alloc(sizeof(*t));
    char reference[ATOLL_TEMPLATE_NAME_MAX + 100];
    const struct atoll_trial_request request = {.tenant = make->tenant,
                                                .version_id = t->id,
                                                .reference = reference,
                                                .start_cmd = make->start_cmd,
                                                .ready_cmd = make->ready_cmd,
                                                .network = make->network,
                                                .policy = make->policy};

    t->engine = make->engine;
    memcpy(t->id, make->id, sizeof(t->id));
    write_reference(make, reference, sizeof(reference));
    if (has_commands(make))
        atoll_make_log_note(make, "note", 0, 0, "waiting until the start command is ready");
    atoll_trial_run(make->engine, &request, on_tried, t);
}

static int add_version(struct atoll_make *make, struct atoll_template_view *ret,
                       struct atoll_error *err)
{
    const struct atoll_make_stage *target = &make->stages[make->plan->target];
    char *config = atoll_json_dump(target->config, JSON_COMPACT);
    const struct atoll_version_new version = {
        .owner = make->owner,
        .name = make->name,
        .tags = has_commands(make) ? "" : tags_of(make),
        .id = make->id,
        .layers = target->layers,
        .config_json = config,
        .source = make->source,
        .definition = make->definition,
        .start_cmd = make->start_cmd,
        .ready_cmd = make->ready_cmd,
        .cpu_millis = make->cpu_millis,
        .memory_bytes = make->memory_bytes,
    };
    int r;

    if (!config)
        abort();
    r = atoll_version_add(make->engine, &version, ret, err);
    free(config);
    if (r == 0)
        atoll_version_sbom_soon(make->engine, ret->id);
    return r;
}

void atoll_make_finish(struct atoll_make *make)
{
    struct atoll_template_view view;
    struct atoll_error err;

    make->finishing = true;
    if (!make->name) {
        atoll_make_end(make, ATOLL_MAKE_READY);
        return;
    }
    if (add_version(make, &view, &err) < 0) {
        atoll_make_fail(make, &err, 0, 0);
        return;
    }
    (void)snprintf(make->version, sizeof(make->version), "%s", view.id);
    (void)snprintf(make->digest, sizeof(make->digest), "%s", view.digest);
    atoll_fault_die("build.version");
    if (strcmp(view.id, make->id) == 0)
        try_version(make);
    else if (has_commands(make))
        end_ready(make);
    else
        atoll_make_end(make, ATOLL_MAKE_READY);
}
