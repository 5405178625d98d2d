#pragma once
#include <jansson.h>
#include "base/buf.h"
#include "base/error.h"

/*
 * A list of packages as a Dockerfile: {"apt": […], "pip": […], "npm": […]}. Pure.
 */
#define ATOLL_PACKAGES_MAX 256 /* of one installer */

/* INVALID_ARGUMENT: an installer that is not known, or a name that is not one of a package (options and
 * characters with a meaning to a shell are refused). */
int atoll_packages_check(const json_t *packages, struct atoll_error *err) ATOLL_MUST_CHECK;

struct atoll_packages_base {
    const char *from;  /* image or template */
    const char *user;  /* default user of the base, restored at the end; NULL, "" or root: root */
    const json_t *env; /* variables of the build, such as PIP_INDEX_URL: object of texts, or NULL */
};
/* Appends the Dockerfile, in the order apt, pip, npm, so that a pip that apt installs is used. The packages
 * were checked. -ENOBUFS, -ENOMEM. */
int atoll_packages_dockerfile(struct atoll_buf *out, const struct atoll_packages_base *base,
                              const json_t *packages) ATOLL_MUST_CHECK;
