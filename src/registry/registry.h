#pragma once
#include <jansson.h>
#include "base/error.h"
#include "loop/loop.h"
#include "sandbox/spec.h"

/*
 * The registry: objects that an operator declares in YAML files, one object per file, in the
 * folders environments, agents, tools, prompts, runtimes and setups of one directory. A file's name without ".yaml"
 * is the object's name. Files are checked by field tables (registry_fields.c) when they are loaded,
 * and again whenever one changes. A file that fails the check is reported as a problem, and its
 * last valid version stays in force.
 *
 * Blocking: small local files, read on the loop's thread. Thread: the loop's. Ownership: the
 * registry owns the objects; they are valid until control returns to the loop.
 */
struct atoll_registry;

enum atoll_registry_kind {
    ATOLL_REGISTRY_ENVIRONMENT,
    ATOLL_REGISTRY_AGENT,
    ATOLL_REGISTRY_TOOL,
    ATOLL_REGISTRY_PROMPT,
    ATOLL_REGISTRY_RUNTIME, /* a row of the table by which tasks choose: docs/agents.md */
    ATOLL_REGISTRY_SETUP,   /* how tasks install what a repository depends on: docs/agents.md */
    ATOLL_REGISTRY_KINDS,
};
/* "environments", …: also the name of the folder. */
const char *atoll_registry_kind_name(enum atoll_registry_kind kind);

/* Limits; a file beyond one of them is reported as a problem. */
#define ATOLL_REGISTRY_FILE_MAX ((size_t)64 * 1024)
#define ATOLL_REGISTRY_ITEMS_MAX 256 /* per kind */
#define ATOLL_REGISTRY_PROBLEMS_MAX 64

/* dir "" or NULL: an empty registry. INVALID_ARGUMENT when the directory cannot be read; an invalid
 * file is a problem (see below), not an error. */
int atoll_registry_open(struct atoll_loop *loop, const char *dir, struct atoll_registry **ret,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_registry *atoll_registry_close(struct atoll_registry *registry);
/* Reads every file again. Also runs by itself shortly after a file changed. */
void atoll_registry_reload(struct atoll_registry *registry);
/* Increases with every reload that changed something. */
uint64_t atoll_registry_generation(const struct atoll_registry *registry);

/* fn is called after every reload that changed something. One function. */
void atoll_registry_on_change(struct atoll_registry *registry, void (*fn)(void *arg), void *arg);

struct atoll_registry_item {
    const char *name;
    const json_t *object; /* the content of the file, checked */
};
/* False when no object has that name. */
bool atoll_registry_find(const struct atoll_registry *registry, enum atoll_registry_kind kind,
                         const char *name, struct atoll_registry_item *ret);
/* Iterates in the order of names: start with *pos = 0; false at the end. */
bool atoll_registry_next(const struct atoll_registry *registry, enum atoll_registry_kind kind,
                         size_t *pos, struct atoll_registry_item *ret);
size_t atoll_registry_count(const struct atoll_registry *registry, enum atoll_registry_kind kind);

struct atoll_registry_problem {
    const char *text; /* "environments/X.yaml:3:5: …" */
    bool kept;        /* an earlier version of the file is in force */
};
bool atoll_registry_next_problem(const struct atoll_registry *registry, size_t *pos,
                                 struct atoll_registry_problem *ret);

/* --- environments, as the engine uses them --- */

struct atoll_environment {
    const char *name;
    const char *template_name, *image, *dockerfile; /* exactly one is set, the others are NULL */
    const char *install;   /* a script that root runs on top of the template or image; or NULL */
    const char *fallback;  /* template to use when template_name does not exist; or NULL */
    const json_t *aliases; /* array of strings; NULL: none */
    const char *language;  /* default language of code */
    struct atoll_limits limits; /* 0: default */
    const json_t *env;          /* object of strings; NULL: none */
    const json_t *network;      /* as in a request; NULL: none */
    const json_t *volumes;      /* likewise */
    const json_t *start;        /* command to run when a session is created; NULL: none */
    const json_t *packages, *requires, *ignore; /* NULL: none */
    const json_t *warm; /* modules that its interpreter imports when it starts; NULL: none */
    uint32_t pool;      /* sandboxes that are kept ready */
    double execute_timeout_s;
    uint16_t port; /* on which its server listens; 0: it has no server */
};
/* Finds an environment by its name, or else by an alias, ignoring case. When several have the
 * alias, the first by name is used. NOT_FOUND lists the environments that exist. */
int atoll_environment_find(const struct atoll_registry *registry, const char *name,
                           struct atoll_environment *ret, struct atoll_error *err) ATOLL_MUST_CHECK;

struct atoll_engine;
/* Returns the environment's template if it exists, or else its fallback if there is one. */
const char *atoll_environment_template(const struct atoll_environment *environment,
                                       struct atoll_engine *engine);

struct atoll_interpreter {
    const char *language;
    const char *extension; /* of the file with the code, without a dot */
    const json_t *run;     /* command; "{file}" is replaced by the path of the file with the code */
};
/* language NULL: the environment's default. INVALID_ARGUMENT lists the languages it has. */
int atoll_environment_interpreter(const struct atoll_registry *registry,
                                  const struct atoll_environment *environment, const char *language,
                                  struct atoll_interpreter *ret,
                                  struct atoll_error *err) ATOLL_MUST_CHECK;
