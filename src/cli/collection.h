#pragma once
#include "cli/client.h"
#include "cli/print.h"

/*
 * Lists as data: each column names the member of a JSON item that it shows. Also the common `ls` and `rm`
 * verbs for keys, templates, volumes and artifacts.
 */
enum atoll_cli_form {
    ATOLL_CLI_FORM_TEXT,
    ATOLL_CLI_FORM_NUMBER,
    ATOLL_CLI_FORM_BYTES,
    ATOLL_CLI_FORM_MEGABYTES,
    ATOLL_CLI_FORM_AGE,   /* time since an RFC 3339 timestamp */
    ATOLL_CLI_FORM_WORDS, /* an array of strings, joined with commas */
};

struct atoll_cli_column {
    const char *title;
    const char *member; /* of the item, or "OBJECT.MEMBER" */
    enum atoll_cli_form form;
    const char
        *missing; /* shown for an absent text, an empty array or the number 0; NULL: "?" or "0" */
    enum atoll_cli_colour colour;
    int width; /* longer texts are cut; 0: not cut */
    /* If not NULL, formats the cell; then only `title` of the other members is used. */
    void (*add)(struct atoll_cli_table *table, const json_t *item);
};

/* Shows the array as a table; columns end with one without title. */
void atoll_cli_list_print(const json_t *items, const struct atoll_cli_column *columns);
/* GETs `path` and shows the array `member` of the answer. */
int atoll_cli_list(struct atoll_cli *cli, const char *path, const char *member,
                   const struct atoll_cli_column *columns,
                   struct atoll_error *err) ATOLL_MUST_CHECK;

/* GETs a list page by page and appends its items to *items. path: with a query, such as
 * "/api/sandboxes?limit=1000". */
int atoll_cli_pages(struct atoll_cli *cli, const char *path, const char *member, json_t *items,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
/* Appends all sessions to *items; with `ended`, the records of ended ones come first. */
int atoll_cli_sessions(struct atoll_cli *cli, bool ended, json_t *items,
                       struct atoll_error *err) ATOLL_MUST_CHECK;

/* GETs `path` and prints the answer as JSON: indented, or in one line with --json. */
int atoll_cli_show(struct atoll_cli *cli, const char *path,
                   struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same for a value. */
int atoll_cli_show_value(struct atoll_cli *cli, const json_t *value,
                         struct atoll_error *err) ATOLL_MUST_CHECK;

/* POSTs to /api/sandboxes/SANDBOX/`what`. request NULL: an argument is not UTF-8. *ret: the answer, owned by
 * the caller. INVALID_ARGUMENT. */
int atoll_cli_post(struct atoll_cli *cli, const char *sandbox, const char *what, json_t *request,
                   int timeout_ms, json_t **ret, struct atoll_error *err) ATOLL_MUST_CHECK;

/* Calls act() for each name (up to a NULL) and prints the names for which it succeeded; with --json as
 * {"DONE":[…]}. Stops at the first failure. With go_on it prints the error, continues, and returns 1. */
int atoll_cli_each(struct atoll_cli *cli, char **names, const char *done, bool go_on,
                   int (*act)(struct atoll_cli *cli, const char *name, const void *arg,
                              struct atoll_error *err),
                   const void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;

/* A resource that is listed with GET `path` and removed with DELETE `path`/NAME. */
struct atoll_cli_collection {
    const char *path, *member;
    const char *what; /* singular, for messages */
    bool by_name;     /* items have names; else ids */
    const struct atoll_cli_column *columns;
};

/* Checks a name or id and returns the request target of that item. INVALID_ARGUMENT. */
int atoll_cli_collection_target(const struct atoll_cli_collection *collection, const char *name,
                                struct atoll_link_target *ret,
                                struct atoll_error *err) ATOLL_MUST_CHECK;
/* run() functions for verbs that set `collection`. */
int atoll_cli_collection_ls(struct atoll_cli *cli, const void *options, int argc, char **argv,
                            struct atoll_error *err);
int atoll_cli_collection_rm(struct atoll_cli *cli, const void *options, int argc, char **argv,
                            struct atoll_error *err);
