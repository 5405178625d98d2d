/*
 * Names of templates as clients write them: "base", "team/base", "base:v1". A tenant's own template
 * comes first, then an environment of the registry by its name or alias, then a template that is
 * shared. The tag "default" of E2B is the tag "latest" here; environments have that tag only.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "api/api_internal.h"
#include "api/e2b/e2b_internal.h"
#include "base/text.h"

#define DEFAULT_TAG "default"
#define ENGINE_TAG "latest"

const char *atoll_e2b_tag_shown(const char *tag)
{
    return strcmp(tag, ENGINE_TAG) == 0 ? DEFAULT_TAG : tag;
}

const char *atoll_e2b_tag_stored(const char *tag)
{
    return strcmp(tag, DEFAULT_TAG) == 0 ? ENGINE_TAG : tag;
}

/* Whether the text looks like the id of a build. */
static bool is_uuid(const char *text)
{
    return strlen(text) == ATOLL_VERSION_ID_LEN && text[8] == '-' && text[13] == '-' &&
           text[18] == '-' && text[23] == '-' && text[strspn(text, "0123456789abcdef-")] == '\0';
}

bool atoll_e2b_tag_is_valid(const char *tag)
{
    size_t n = strspn(tag, "abcdefghijklmnopqrstuvwxyz0123456789-_.");

    return n > 0 && n <= ATOLL_TEMPLATE_TAG_MAX && !tag[n] && tag[0] != '.' && tag[0] != '-' &&
           !is_uuid(tag);
}

static void lower(char *text)
{
    for (; *text; text++)
        *text = (char)tolower((unsigned char)*text);
}

int atoll_e2b_name_parse(const char *asked, struct atoll_e2b_name *ret)
{
    const char *slash = strrchr(asked, '/'), *start = slash ? slash + 1 : asked;
    size_t n = strcspn(start, ":"), team = slash ? (size_t)(slash - asked) : 0;

    *ret = (struct atoll_e2b_name){0};
    if (n == 0 || n >= sizeof(ret->alias) || team >= sizeof(ret->team))
        return -EINVAL;
    memcpy(ret->alias, start, n);
    memcpy(ret->team, asked, team);
    if (slash && !atoll_text_is_name(ret->team))
        return -EINVAL;
    lower(ret->alias);
    if (!start[n])
        return 0;
    if (atoll_text_copy(ret->tag, sizeof(ret->tag), start + n + 1) < 0)
        return -EINVAL;
    lower(ret->tag);
    return atoll_e2b_tag_is_valid(ret->tag) ? 0 : -EINVAL;
}

static int missing(struct atoll_error *err, const char *asked)
{
    return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "template '%.128s' not found", asked);
}

/* The name in the engine's spelling; templates that E2B's clients did not make may have capitals. */
static const char *spelled(const struct atoll_api_call *call, const char *name)
{
    struct atoll_template_view view;
    size_t pos = 0;

    while (atoll_templates_next(call->engine, &pos, &view))
        if (strcasecmp(view.name, name) == 0 && atoll_e2b_template_sees(call, &view))
            return view.name;
    return name;
}

bool atoll_e2b_template_sees(const struct atoll_api_call *call,
                             const struct atoll_template_view *view)
{
    return !view->owner || !*view->owner || atoll_api_sees(call, view->owner) ||
           atoll_template_may_use(view, call->caller.tenant);
}

/* Writes how the engine calls the template. */
static void write_reference(const struct atoll_api_call *call, const char *team,
                            const struct atoll_e2b_name *name, char *out, size_t cap)
{
    (void)snprintf(out, cap, "%s%s%s%s%s", team, *team ? "/" : "", spelled(call, name->alias),
                   *name->tag ? ":" : "", atoll_e2b_tag_stored(name->tag));
}

/* own: only the tenant's. */
static bool find_template(const struct atoll_api_call *call, bool own, struct atoll_e2b_template *t)
{
    const struct atoll_e2b_name *name = &t->asked;
    bool found;

    write_reference(call, "", name, t->reference, sizeof(t->reference));
    found = atoll_templates_find(call->engine, call->caller.tenant, t->reference, &t->view) &&
            (!own || (t->view.owner && strcmp(t->view.owner, call->caller.tenant) == 0));
    if (!found && !own && *name->team) {
        write_reference(call, name->team, name, t->reference, sizeof(t->reference));
        found = atoll_templates_find(call->engine, call->caller.tenant, t->reference, &t->view);
    }
    t->has_view = found;
    return found;
}

/* By name or alias. Names are compared in lower case, as in E2B's service. */
static bool find_environment(const struct atoll_registry *registry, const char *name,
                             struct atoll_environment *ret)
{
    struct atoll_registry_item item;
    size_t pos = 0;

    if (atoll_environment_find(registry, name, ret, NULL) == 0)
        return true;
    while (atoll_registry_next(registry, ATOLL_REGISTRY_ENVIRONMENT, &pos, &item))
        if (strcasecmp(item.name, name) == 0)
            return atoll_environment_find(registry, item.name, ret, NULL) == 0;
    return false;
}

static bool has_default_tag(const struct atoll_e2b_name *name)
{
    return !*name->tag || strcmp(atoll_e2b_tag_stored(name->tag), ENGINE_TAG) == 0;
}

/* Sets what sandboxes of the environment are made from. */
static int use_environment(const struct atoll_api_call *call, const char *asked,
                           struct atoll_e2b_template *t, struct atoll_error *err)
{
    t->is_environment = true;
    if (t->environment.image || t->environment.dockerfile)
        return 0;
    t->name = atoll_environment_template(&t->environment, call->engine);
    t->has_view =
        t->name && atoll_templates_find(call->engine, call->caller.tenant, t->name, &t->view);
    return t->name ? 0 : missing(err, asked);
}

/* Defaults of the version, for create. */
static void use_template(struct atoll_e2b_template *t)
{
    t->name = t->reference;
    t->environment.limits.cpu_millis = t->view.cpu_millis;
    t->environment.limits.memory_bytes = t->view.memory_bytes;
}

/* As the client wrote it. */
static void keep_alias(const char *asked, struct atoll_e2b_template *t)
{
    const char *slash = strrchr(asked, '/');

    (void)snprintf(t->alias, sizeof(t->alias), "%s", slash ? slash + 1 : asked);
    t->alias[strcspn(t->alias, ":")] = '\0';
}

int atoll_e2b_template_find(const struct atoll_api_call *call, const char *asked,
                            struct atoll_e2b_template *ret, struct atoll_error *err)
{
    struct atoll_sessions *sessions = call->api->config.sessions;

    *ret = (struct atoll_e2b_template){0};
    if (atoll_e2b_name_parse(asked, &ret->asked) < 0)
        return missing(err, asked);
    keep_alias(asked, ret);
    if (find_template(call, true, ret)) {
        use_template(ret);
        return 0;
    }
    if (sessions && has_default_tag(&ret->asked) &&
        find_environment(atoll_sessions_registry(sessions), ret->asked.alias, &ret->environment))
        return use_environment(call, asked, ret, err);
    if (!find_template(call, false, ret))
        return missing(err, asked);
    use_template(ret);
    return 0;
}
