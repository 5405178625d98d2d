/*
 * "base", "team/base" and "base:default" name the same template: an environment of the registry by
 * its name or alias, otherwise a template of the engine. There is one team and one tag.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "api/api_internal.h"
#include "api/e2b/e2b_internal.h"
#include "base/text.h"

static int missing(struct atoll_error *err, const char *asked)
{
    return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "template '%.128s' not found", asked);
}

/* Extracts the name; false if the tag is unknown. */
static bool strip(const char *asked, char *out, size_t cap)
{
    const char *slash = strrchr(asked, '/');
    char *tag;

    if (atoll_text_copy(out, cap, slash ? slash + 1 : asked) < 0)
        return false;
    tag = strchr(out, ':');
    if (tag)
        *tag++ = '\0';
    return *out && (!tag || strcmp(tag, "default") == 0);
}

/* The engine's spelling of the name, or NULL. */
static const char *find_template(const struct atoll_api_call *call, const char *name)
{
    struct atoll_template_view view;
    size_t pos = 0;

    while (atoll_templates_next(call->engine, &pos, &view))
        if (strcasecmp(view.name, name) == 0 &&
            (!view.owner || !*view.owner || atoll_api_sees(call, view.owner)))
            return view.name;
    return NULL;
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

int atoll_e2b_template_find(const struct atoll_api_call *call, const char *asked,
                            struct atoll_e2b_template *ret, struct atoll_error *err)
{
    struct atoll_sessions *sessions = call->api->config.sessions;

    *ret = (struct atoll_e2b_template){0};
    if (!strip(asked, ret->alias, sizeof(ret->alias)))
        return missing(err, asked);
    if (sessions &&
        find_environment(atoll_sessions_registry(sessions), ret->alias, &ret->environment)) {
        ret->is_environment = true;
        ret->name = ret->environment.image
                        ? NULL
                        : atoll_environment_template(&ret->environment, call->engine);
    } else {
        ret->name = find_template(call, ret->alias);
    }
    return ret->name ? 0 : missing(err, asked);
}
