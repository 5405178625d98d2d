#pragma once
#include "api/preview.h"
#include "daemon/config.h"

/* The host names and ports under which clients reach the daemon. */
#define ATOLL_SITE_NAMES 32
#define ATOLL_SITE_BELOW 8

struct atoll_site {
    struct atoll_preview_site site;
    const char *names[ATOLL_SITE_NAMES + 1];
    char host[256];                    /* name of this host */
    char listen[2][256], list[1024];   /* storage of `names` */
    char below[ATOLL_SITE_BELOW][256]; /* storage of `names`: hosts of facades */
};

/* The strings of config are borrowed for the life of `site`. INVALID_ARGUMENT: not a valid host
 * name. */
int atoll_site_init(struct atoll_site *site, const struct atoll_config *config,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
