#include "daemon/site.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define NAME_CHARS "abcdefghijklmnopqrstuvwxyz0123456789-."

static bool is_domain(const char *name)
{
    size_t n = strlen(name);

    return n > 0 && strspn(name, NAME_CHARS) == n && name[0] != '.' && name[0] != '-' &&
           name[n - 1] != '.' && !strstr(name, "..");
}

static int add_name(struct atoll_site *site, const char *name, struct atoll_error *err)
{
    size_t n = 0;

    while (n < ATOLL_SITE_NAMES && site->names[n])
        n++;
    if (n == ATOLL_SITE_NAMES)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENOBUFS,
                          "--host-names has too many names");
    site->names[n] = name;
    return 0;
}

/* Adds the names below the domain that facades answer. */
static int add_below(struct atoll_site *site, const char *domain, struct atoll_error *err)
{
    size_t n = 0;
    int r = 0;

    for (const struct atoll_facade *const *f = atoll_facades; *f; f++)
        for (const char *const *label = (*f)->hosts; r == 0 && label && *label; label++) {
            if (n == ATOLL_SITE_BELOW)
                return atoll_fail(err, ATOLL_ERR_INTERNAL, ENOBUFS, "facades have too many hosts");
            (void)snprintf(site->below[n], sizeof(site->below[n]), "%s.%s", *label, domain);
            r = add_name(site, site->below[n++], err);
        }
    return r;
}

/* Adds HOST of HOST:PORT; `out` keeps the text. */
static int add_address(struct atoll_site *site, char *out, const char *address,
                       struct atoll_error *err)
{
    char *colon;

    (void)snprintf(out, sizeof(site->listen[0]), "%s", address);
    colon = strrchr(out, ':');
    if (colon)
        *colon = '\0';
    return *out ? add_name(site, out, err) : 0;
}

/* Splits the list in place. */
static int add_list(struct atoll_site *site, char *list, struct atoll_error *err)
{
    char *name;
    int r = 0;

    while (r == 0 && (name = strsep(&list, ", "))) {
        if (*name == '\0')
            continue;
        if (!is_domain(name))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "--host-names must be host names in lower case (got \"%.80s\")",
                              name);
        r = add_name(site, name, err);
    }
    return r;
}

int atoll_site_init(struct atoll_site *site, const struct atoll_config *config,
                    struct atoll_error *err)
{
    int r;

    *site = (struct atoll_site){.site = {.domain = config->preview_domain}};
    site->site.names = site->names;
    if (!is_domain(config->preview_domain))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "--preview-domain must be a domain in lower case (got \"%.80s\")",
                          config->preview_domain);
    (void)snprintf(site->list, sizeof(site->list), "%s", config->host_names);
    r = add_name(site, config->preview_domain, err);
    if (r == 0)
        r = add_below(site, config->preview_domain, err);
    if (r == 0)
        r = add_address(site, site->listen[0], config->listen, err);
    if (r == 0)
        r = add_address(site, site->listen[1], config->tls_listen, err);
    if (r == 0 && gethostname(site->host, sizeof(site->host) - 1) == 0)
        r = add_name(site, site->host, err);
    return r < 0 ? r : add_list(site, site->list, err);
}
