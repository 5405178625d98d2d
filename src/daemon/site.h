#pragma once
#include "api/preview.h"
#include "daemon/config.h"

/* The names and ports by which the daemon is reached from outside. */
#define ATOLL_SITE_NAMES 32

struct atoll_site {
    struct atoll_preview_site site;
    const char *names[ATOLL_SITE_NAMES + 1];
    char host[256];                  /* this host's */
    char listen[2][256], list[1024]; /* what the names point into */
    char below[2][256];              /* likewise: names below the domain that are ours */
};

/* The strings of config are borrowed for good. INVALID_ARGUMENT for what can be no name. */
int atoll_site_init(struct atoll_site *site, const struct atoll_config *config,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
