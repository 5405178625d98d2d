/*
 * Tags of templates: GET /templates/{id}/tags, POST and DELETE /templates/tags.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/e2b/e2b_internal.h"

#define TAGS_MAX ATOLL_TEMPLATE_TAGS_MAX
#define NAME_TEXT_MAX 256

struct request {
    const char *target, *name;
    const char *const *tags;
};

#define AT(member) offsetof(struct request, member)
static const struct atoll_field fields[] = {
    {"target", ATOLL_FIELD_STRING, AT(target), 1, NAME_TEXT_MAX, NULL, 0},
    {"name", ATOLL_FIELD_STRING, AT(name), 1, NAME_TEXT_MAX, NULL, 0},
    {"tags", ATOLL_FIELD_STRINGS, AT(tags), 1, TAGS_MAX, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};
#undef AT

/* The template that the request is about, which the tenant may change. */
static int find(const struct atoll_api_call *call, const struct request *q, const char *asked,
                struct atoll_e2b_template *ret, struct atoll_error *err)
{
    int r;

    if (!asked || !q->tags)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the request needs a template and tags");
    for (size_t i = 0; q->tags[i]; i++)
        if (!atoll_e2b_tag_is_valid(q->tags[i]))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "invalid tag \"%.80s\"",
                              q->tags[i]);
    r = atoll_e2b_template_find(call, asked, ret, err);
    return r < 0 ? r : atoll_e2b_template_check_owner(call, ret, err);
}

/* Assigning. */

static int assign(const struct atoll_api_call *call, const struct request *q,
                  struct atoll_e2b_template *t, struct atoll_error *err)
{
    int r = find(call, q, q->target, t, err);

    for (size_t i = 0; r == 0 && q->tags[i]; i++)
        r = atoll_template_tag(call->engine, t->view.owner, t->reference,
                               atoll_e2b_tag_stored(q->tags[i]), err);
    return r;
}

void atoll_e2b_template_tags_assign(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_e2b_template t;
    struct request q = {0};
    struct atoll_error error;
    struct atoll_json_out out;
    struct atoll_body body;
    struct atoll_buf buf;

    if (atoll_e2b_decode(&body, bytes, n, fields, &q, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    if (assign(call, &q, &t, &error) < 0) {
        atoll_api_fail(call, &error);
    } else {
        atoll_api_reply_init(&buf, &out);
        atoll_json_open(&out, NULL, '{');
        atoll_json_open(&out, "tags", '[');
        for (size_t i = 0; q.tags[i]; i++)
            atoll_json_text(&out, NULL, q.tags[i]);
        atoll_json_close(&out, ']');
        atoll_json_text(&out, "buildID", t.view.id);
        atoll_json_close(&out, '}');
        atoll_api_reply(call, 201, &out);
    }
    atoll_body_done(&body);
}

/* Removing: one tag after the other. */

struct removal {
    struct atoll_api_call *call;
    char owner[65], name[ATOLL_TEMPLATE_NAME_MAX + 1];
    char tags[TAGS_MAX][ATOLL_TEMPLATE_TAG_MAX + 1];
    size_t count, at;
};

static void removed(void *arg, const struct atoll_error *error)
{
    struct removal *r = arg;
    char reference[sizeof(r->name) + sizeof(r->tags[0])];

    if (!error && r->at < r->count) {
        (void)snprintf(reference, sizeof(reference), "%s:%s", r->name, r->tags[r->at++]);
        atoll_templates_remove(r->call->engine, r->owner, reference, removed, r);
        return;
    }
    atoll_e2b_done(r->call, error);
    free(r);
}

static int prepare(const struct atoll_api_call *call, const struct request *q, struct removal *r,
                   struct atoll_error *err)
{
    struct atoll_e2b_template t;
    int k = find(call, q, q->name, &t, err);

    if (k < 0)
        return k;
    (void)snprintf(r->owner, sizeof(r->owner), "%s", t.view.owner);
    (void)snprintf(r->name, sizeof(r->name), "%s", t.view.name);
    for (; q->tags[r->count]; r->count++) {
        const char *tag = atoll_e2b_tag_stored(q->tags[r->count]);
        if (strcmp(tag, q->tags[r->count]) != 0)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "the tag \"%s\" cannot be deleted", q->tags[r->count]);
        (void)snprintf(r->tags[r->count], sizeof(r->tags[0]), "%s", tag);
    }
    return 0;
}

void atoll_e2b_template_tags_remove(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct request q = {0};
    struct atoll_error error;
    struct atoll_body body;
    struct removal *r;

    if (atoll_e2b_decode(&body, bytes, n, fields, &q, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    r = atoll_api_alloc(sizeof(*r));
    r->call = call;
    if (prepare(call, &q, r, &error) < 0) {
        free(r);
        atoll_api_fail(call, &error);
    } else {
        removed(r, NULL);
    }
    atoll_body_done(&body);
}

/* Listing. */

static void view_tag(struct atoll_json_out *out, const char *tag, const char *build,
                     int64_t created_unix_ms)
{
    atoll_json_open(out, NULL, '{');
    atoll_json_text(out, "tag", atoll_e2b_tag_shown(tag));
    atoll_json_text(out, "buildID", build);
    atoll_json_time(out, "createdAt", created_unix_ms);
    atoll_json_close(out, '}');
}

static void view_version(void *arg, const struct atoll_template_view *version, const char *tags)
{
    char copy[(ATOLL_TEMPLATE_TAG_MAX + 1) * TAGS_MAX], *rest = copy, *tag;

    (void)snprintf(copy, sizeof(copy), "%s", tags);
    while (*copy && (tag = strsep(&rest, " ")))
        view_tag(arg, tag, version->id, version->created_unix_ms);
}

void atoll_e2b_template_tags(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                             size_t n ATOLL_UNUSED)
{
    struct atoll_e2b_template t;
    char build[ATOLL_VERSION_ID_LEN + 1];
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!atoll_e2b_template_in_path(call, call->params.template, &t))
        return;
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '[');
    if (t.is_environment || !t.view.id || !*t.view.id) {
        atoll_e2b_template_build_id(&t, build);
        view_tag(&out, "latest", build, atoll_e2b_template_created(call, &t));
    } else {
        atoll_template_each_version(call->engine, t.view.owner, t.view.name, view_version, &out);
    }
    atoll_json_close(&out, ']');
    atoll_api_reply(call, 200, &out);
}
