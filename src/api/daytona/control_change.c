/*
 * Settings of one sandbox: labels, intervals, the public flag, the time of its last use.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "api/daytona/control_create.h"
#include "api/kit/json_value.h"
#include "api/kit/metadata.h"
#include "base/clock.h"
#include "engine/json_memory.h"

#define MINUTES_MAX 5256000 /* ten years */
#define MINUTE_MS 60000

/* Labels. */

struct labels_request {
    const json_t *labels;
};

static const struct atoll_field label_fields[] = {
    {"labels", ATOLL_FIELD_JSON, offsetof(struct labels_request, labels), 0, 0, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};

static int store_labels(struct atoll_api_call *call, const json_t *labels, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *text = NULL;
    int r = atoll_metadata_check(labels, "labels", err);

    if (r < 0)
        return r;
    text = atoll_json_dump(labels, JSON_COMPACT);
    if (!text)
        return atoll_fields_no_memory(err);
    if (strlen(text) > ATOLL_DAYTONA_FACTS_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG, "labels are at most 64 KiB");
    return atoll_engine_set_metadata(call->engine, call->params.id, text, err);
}

void atoll_daytona_set_labels(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct labels_request q = {0};
    struct atoll_error error;
    struct atoll_body body;
    struct atoll_buf buf;
    struct atoll_json_out out;
    int r = atoll_body_decode(&body, bytes, n, label_fields, &q, &error);

    if (r == 0)
        r = store_labels(call, q.labels, &error);
    if (atoll_api_reply_begin(call, r < 0 ? &error : NULL, &buf, &out)) {
        atoll_json_open(&out, NULL, '{');
        atoll_json_value(&out, "labels", q.labels);
        atoll_json_close(&out, '}');
        atoll_api_reply(call, 200, &out);
    }
    atoll_body_done(&body);
}

/* Intervals. */

static int take_minutes(const struct atoll_api_call *call, bool may_be_negative, const char *what,
                        int64_t *ret, struct atoll_error *err)
{
    const char *text = call->params.name;
    char *end;

    errno = 0;
    *ret = strtoll(text, &end, 10);
    if (end == text || *end || errno || *ret > MINUTES_MAX || *ret < -MINUTES_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "%s must be a whole number of minutes (got \"%.32s\")", what, text);
    if (!may_be_negative && *ret < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s must be non-negative", what);
    return 0;
}

int atoll_daytona_apply_idle(struct atoll_engine *engine, const char *id, struct atoll_error *err)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(engine, id);
    json_t *facts = atoll_daytona_facts(sandbox);
    int64_t stop = atoll_fact_number(facts, ATOLL_DAYTONA_AUTO_STOP, 0);
    int64_t pause = atoll_fact_number(facts, ATOLL_DAYTONA_AUTO_PAUSE, 0);
    int64_t destroy = atoll_fact_number(facts, ATOLL_DAYTONA_AUTO_DELETE, -1);
    enum atoll_at_deadline then = ATOLL_DEADLINE_DESTROY;
    struct atoll_sandbox_view view;

    json_decref(facts);
    atoll_sandbox_get(sandbox, &view);
    if (pause > 0)
        then = ATOLL_DEADLINE_PAUSE;
    else if (!view.options.lifetime.persistent && destroy != 0)
        then = ATOLL_DEADLINE_PAUSE_DISK;
    return atoll_engine_set_idle(engine, id, (uint32_t)(stop > 0 ? stop : pause) * 60, then, err);
}

/* of: the interval; other: the one that this one replaces, or NULL. */
static void set_interval(struct atoll_api_call *call, const char *of, const char *other,
                         const char *what, bool may_be_negative)
{
    struct atoll_error error;
    int64_t minutes;
    int r = take_minutes(call, may_be_negative, what, &minutes, &error);

    if (r == 0 && strcmp(of, ATOLL_DAYTONA_AUTO_ARCHIVE) == 0)
        minutes = atoll_daytona_archive_minutes(minutes);
    if (r == 0)
        r = atoll_daytona_change(call->engine, call->params.id, of, json_integer(minutes), &error);
    if (r == 0 && other && minutes > 0)
        r = atoll_daytona_change(call->engine, call->params.id, other, json_integer(0), &error);
    if (r == 0)
        r = atoll_daytona_apply_idle(call->engine, call->params.id, &error);
    atoll_daytona_done(call, r < 0 ? &error : NULL);
}

void atoll_daytona_set_autostop(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                size_t n ATOLL_UNUSED)
{
    set_interval(call, ATOLL_DAYTONA_AUTO_STOP, ATOLL_DAYTONA_AUTO_PAUSE, "Auto-stop interval",
                 false);
}

void atoll_daytona_set_autopause(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                 size_t n ATOLL_UNUSED)
{
    set_interval(call, ATOLL_DAYTONA_AUTO_PAUSE, ATOLL_DAYTONA_AUTO_STOP, "Auto-pause interval",
                 false);
}

void atoll_daytona_set_autoarchive(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                   size_t n ATOLL_UNUSED)
{
    set_interval(call, ATOLL_DAYTONA_AUTO_ARCHIVE, NULL, "Auto-archive interval", false);
}

void atoll_daytona_set_autodelete(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                  size_t n ATOLL_UNUSED)
{
    set_interval(call, ATOLL_DAYTONA_AUTO_DELETE, NULL, "Auto-delete interval", true);
}

void atoll_daytona_set_ttl(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    struct atoll_error error;
    int64_t minutes;
    int r = take_minutes(call, false, "TTL", &minutes, &error);

    if (r == 0)
        r = atoll_daytona_change(
            call->engine, call->params.id, "destroyAt",
            json_integer(minutes > 0 ? atoll_clock_unix_ms() + minutes * MINUTE_MS : 0), &error);
    atoll_daytona_done(call, r < 0 ? &error : NULL);
}

/* Others. */

void atoll_daytona_set_public(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    const char *text = call->params.name;
    bool on = strcmp(text, "true") == 0;
    struct atoll_error error;
    int r = 0;

    if (!on && strcmp(text, "false") != 0)
        r = atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "isPublic must be true or false (got \"%.32s\")", text);
    if (r == 0)
        r = atoll_daytona_change(call->engine, call->params.id, "public", json_boolean(on), &error);
    atoll_daytona_done(call, r < 0 ? &error : NULL);
}

void atoll_daytona_note_activity(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                 size_t n ATOLL_UNUSED)
{
    atoll_daytona_touch(call->api, call->params.id);
    atoll_api_reply_empty(call, 201);
}
