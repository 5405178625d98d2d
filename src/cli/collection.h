#pragma once
#include "cli/client.h"
#include "cli/print.h"

/*
 * Lists as data: what the columns of a table show of each item of an answer; and what `ls` and `rm` of
 * keys, templates and the like have in common.
 */
enum atoll_cli_form {
    ATOLL_CLI_FORM_TEXT,
    ATOLL_CLI_FORM_NUMBER,
    ATOLL_CLI_FORM_BYTES,
    ATOLL_CLI_FORM_MEGABYTES,
    ATOLL_CLI_FORM_AGE,   /* since a time */
    ATOLL_CLI_FORM_WORDS, /* an array of texts, with commas between */
};

struct atoll_cli_column {
    const char *title;
    const char *member; /* of the item, or "OBJECT.MEMBER" */
    enum atoll_cli_form form;
    const char *missing; /* no text, no word, or a number that is 0; NULL: "?", or the 0 */
    enum atoll_cli_colour colour;
    int width; /* of a text, at the most; 0: all of it */
    /* Adds the cell itself, instead of all that but the title. */
    void (*add)(struct atoll_cli_table *table, const json_t *item);
};

/* Shows the array as a table; columns end with one without title. */
void atoll_cli_list_print(const json_t *items, const struct atoll_cli_column *columns);
/* GETs `path` and shows the array `member` of the answer. */
int atoll_cli_list(struct atoll_cli *cli, const char *path, const char *member,
                   const struct atoll_cli_column *columns,
                   struct atoll_error *err) ATOLL_MUST_CHECK;

/* Does one thing to each of the names (up to a NULL) and prints those it was done to; with --json as
 * {"DONE":[…]}. Stops at the first failure, unless it is to go on: then what fails is told, and the
 * status 1. */
int atoll_cli_each(struct atoll_cli *cli, char **names, const char *done, bool go_on,
                   int (*act)(struct atoll_cli *cli, const char *name, const void *arg,
                              struct atoll_error *err),
                   const void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;

/* What is listed at one path, and removed by name below it. */
struct atoll_cli_collection {
    const char *path, *member;
    const char *what; /* one of them is called in messages */
    bool by_name;     /* they have names, not ids */
    const struct atoll_cli_column *columns;
};

/* Checks a name and says where it is. INVALID_ARGUMENT. */
int atoll_cli_collection_target(const struct atoll_cli_collection *collection, const char *name,
                                struct atoll_link_target *ret,
                                struct atoll_error *err) ATOLL_MUST_CHECK;
/* run() of verbs that have a collection. */
int atoll_cli_collection_ls(struct atoll_cli *cli, const void *options, int argc, char **argv,
                            struct atoll_error *err);
int atoll_cli_collection_rm(struct atoll_cli *cli, const void *options, int argc, char **argv,
                            struct atoll_error *err);
