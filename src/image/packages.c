#include "image/packages.h"

#include <errno.h>
#include <string.h>

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

static const struct installer {
    const char *name;
    const char *characters; /* that a package may have */
    const char *first;      /* that it may begin with */
    const char *before, *after;
} installers[] = {
    /* NAME[:ARCHITECTURE][=VERSION] */
    {"apt", LETTERS "+-.:=~_", LETTERS,
     "RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y "
     "--no-install-recommends",
     " && rm -rf /var/lib/apt/lists/*"},
    /* A requirement of PEP 508 without markers and URLs. The variables permit to install into a Python of
     * the distribution (PEP 668), as root; an older pip ignores them. */
    {"pip", LETTERS "-._[],<>=!~*+ ", LETTERS,
     "RUN PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore python3 -m pip install "
     "--no-cache-dir",
     ""},
    /* [@SCOPE/]NAME[@RANGE] */
    {"npm", LETTERS "-._@/^~<>=*+", LETTERS "@", "RUN npm install --global --no-fund --no-audit",
     ""},
};

static const struct installer *find(const char *name)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(installers); i++)
        if (strcmp(installers[i].name, name) == 0)
            return &installers[i];
    return NULL;
}

static int check_package(const struct installer *installer, const char *package,
                         struct atoll_error *err)
{
    if (package && *package && strchr(installer->first, *package) &&
        !package[strspn(package, installer->characters)])
        return 0;
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "packages.%s: \"%.60s\" is not the name of a package", installer->name,
                      package ? package : "");
}

int atoll_packages_check(const json_t *packages, struct atoll_error *err)
{
    json_t *object = (json_t *)(uintptr_t)packages, *list;
    const char *name;

    json_object_foreach(object, name, list)
    {
        const struct installer *installer = find(name);
        if (!installer)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "packages: there is no installer \"%.40s\"; known are apt, pip, npm",
                              name);
        if (json_array_size(list) > ATOLL_PACKAGES_MAX)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG,
                              "packages.%s has more than %d packages", name, ATOLL_PACKAGES_MAX);
        for (size_t i = 0; i < json_array_size(list); i++)
            if (check_package(installer, json_string_value(json_array_get(list, i)), err) < 0)
                return -EINVAL;
    }
    return 0;
}

/* ARG NAME="value". A value with a line end cannot be written in a Dockerfile and is left out. */
static int write_variable(struct atoll_buf *out, const char *name, const char *value)
{
    int r;

    if (strpbrk(value, "\r\n"))
        return 0;
    r = atoll_buf_appendf(out, "ARG %s=\"", name);
    for (; r == 0 && *value; value++) {
        if (strchr("\"\\$", *value))
            r = atoll_buf_appends(out, "\\");
        if (r == 0)
            r = atoll_buf_append(out, value, 1);
    }
    return r == 0 ? atoll_buf_appends(out, "\"\n") : r;
}

static int write_installer(struct atoll_buf *out, const struct installer *installer,
                           const json_t *list)
{
    int r = json_array_size(list) > 0 ? atoll_buf_appends(out, installer->before) : 0;

    for (size_t i = 0; r == 0 && i < json_array_size(list); i++)
        r = atoll_buf_appendf(out, " '%s'", json_string_value(json_array_get(list, i)));
    if (r == 0 && json_array_size(list) > 0)
        r = atoll_buf_appendf(out, "%s\n", installer->after);
    return r;
}

int atoll_packages_dockerfile(struct atoll_buf *out, const struct atoll_packages_base *base,
                              const json_t *packages)
{
    json_t *env = (json_t *)(uintptr_t)base->env, *value;
    bool other = base->user && *base->user && strcmp(base->user, "root") != 0 &&
                 strcmp(base->user, "0") != 0;
    const char *name;
    int r = atoll_buf_appendf(out, "FROM %s\n%s", base->from, other ? "USER root\n" : "");

    json_object_foreach(env, name, value)
    {
        if (r == 0)
            r = write_variable(out, name, json_string_value(value));
    }
    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(installers); i++)
        r = write_installer(out, &installers[i], json_object_get(packages, installers[i].name));
    return r == 0 && other ? atoll_buf_appendf(out, "USER %s\n", base->user) : r;
}
