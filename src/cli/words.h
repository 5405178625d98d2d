#pragma once
#include "cli/client.h"

/*
 * The words of usage lines and of option values (SANDBOX, TEMPLATE, FILE …) are the kinds of values: a
 * table says where the values of each come from. Completion offers them. The daemon finds sandboxes by name
 * and by the beginning of their id; other ids are completed here.
 */
enum atoll_cli_source {
    ATOLL_CLI_FROM_USER, /* cannot be known */
    ATOLL_CLI_FROM_FILES,
    ATOLL_CLI_FROM_DIRECTORIES,
    ATOLL_CLI_FROM_VERBS,
    ATOLL_CLI_FROM_SIDES, /* of a copy: a sandbox with a colon, or a file */
    ATOLL_CLI_FROM_LIST,  /* a list of the daemon */
};

struct atoll_cli_word {
    const char *name;
    enum atoll_cli_source source;
    /* For FROM_LIST: the request (%s is the sandbox), the array in the answer, and the members of an item
     * that are its id and describe it. */
    const char *target, *array, *id, *detail;
    size_t id_len; /* of ids that we complete from a unique prefix; 0: the daemon does, or none */
    const char *name_of; /* the member that is the item's other name; NULL: it has none */
};

#define ATOLL_CLI_WORD_MAX 40

/* The word of argument `at` (from 0) in the verb's usage line; false if it takes no such argument. */
bool atoll_cli_arg_word(const struct atoll_cli_verb *verb, int at, char out[ATOLL_CLI_WORD_MAX]);
/* NULL for an unknown word. */
const struct atoll_cli_word *atoll_cli_word_find(const char *name);
/* Whether the word lists its values: "bash|zsh|fish". */
bool atoll_cli_word_is_choice(const char *name);

/* Gets the items of the list. The caller owns *ret_items, an array. */
int atoll_cli_word_items(struct atoll_cli *cli, const struct atoll_cli_word *word,
                         const char *sandbox, json_t **ret_items,
                         struct atoll_error *err) ATOLL_MUST_CHECK;

/* Fewest characters of an abbreviated id. */
#define ATOLL_CLI_PREFIX_MIN 4

/* Replaces a prefix of an id in *id by the id, which the connection owns. What is no prefix stays: the daemon has the last word.
 * INVALID_ARGUMENT if several ids begin with it. */
int atoll_cli_word_resolve(struct atoll_cli *cli, const struct atoll_cli_word *word,
                           const char *sandbox, char **id,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same for all arguments of a verb whose words are ids. */
int atoll_cli_resolve_args(struct atoll_cli *cli, int argc, char **argv,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
