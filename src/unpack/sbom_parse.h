#pragma once
#include "base/defs.h"

/*
 * Files of package managers in a tree: which paths they have, and the packages that they name. Pure; accepts any
 * bytes, and reads as much as it understands.
 */
enum atoll_sbom_kind {
    ATOLL_SBOM_NONE, /* a path that names no packages */
    ATOLL_SBOM_DEB,
    ATOLL_SBOM_APK,
    ATOLL_SBOM_PYPI,
    ATOLL_SBOM_NPM,
    ATOLL_SBOM_OS,    /* os-release: the distribution is given as a package */
    ATOLL_SBOM_UNREAD /* a database that is not read: rpm */
};

/* Texts are borrowed during the call; arch and license may be "". */
struct atoll_sbom_package {
    const char *name, *version, *arch, *license;
};
typedef void atoll_sbom_fn(void *arg, const struct atoll_sbom_package *package);

/* What the file at path (relative, clean) is. */
enum atoll_sbom_kind atoll_sbom_kind(const char *path);
/* Calls fn for each package; text[n] is NUL and the text is changed. A package without a name or a version is
 * left out. */
void atoll_sbom_parse(enum atoll_sbom_kind kind, char *text, size_t n, atoll_sbom_fn *fn,
                      void *arg);
