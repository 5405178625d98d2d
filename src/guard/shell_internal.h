#pragma once
#include "base/buf.h"
#include "guard/shell.h"

/* Shared by shell.c, which reads texts, shell_word.c, which reads words, and shell_run.c, which knows programs that
 * run others. */

#define ATOLL_SHELL_HEREDOCS 16
#define ATOLL_SHELL_BYTES_MAX ((size_t)256 * 1024) /* of all words */

struct atoll_shell_parser {
    const char *p, *end;
    unsigned depth;
    struct atoll_shell *out;
    struct atoll_error *err;
    /* Here-documents whose text follows the current line. */
    struct {
        char *delimiter; /* owned */
        bool quoted, tabs;
    } heredocs[ATOLL_SHELL_HEREDOCS];
    size_t heredoc_count;
};

/* A growing list of words. */
struct atoll_shell_words {
    struct atoll_shell_word *words;
    size_t count, capacity;
};
void atoll_shell_words_done(struct atoll_shell_words *words);
/* text: ownership passes. */
void atoll_shell_words_add(struct atoll_shell_words *words, char *text, bool many);

/* shell.c */
int atoll_shell_refuse(struct atoll_shell_parser *ps, const char *what);
/* Reads commands up to the closer, which is consumed: ')' or '\0' for the end of the text. */
int atoll_shell_read_list(struct atoll_shell_parser *ps, char closer) ATOLL_MUST_CHECK;
/* Parses another text into the same list. */
int atoll_shell_read_text(struct atoll_shell_parser *ps, const char *text,
                          size_t n) ATOLL_MUST_CHECK;

/* shell_word.c */
struct atoll_shell_read {
    struct atoll_buf text;
    bool many, quoted, any;
};
/* Reads one word, which may be empty if it is quoted. Free read->text in all cases. */
int atoll_shell_read_word(struct atoll_shell_parser *ps,
                          struct atoll_shell_read *read) ATOLL_MUST_CHECK;
/* Skips arithmetic up to its "))". */
int atoll_shell_skip_arithmetic(struct atoll_shell_parser *ps) ATOLL_MUST_CHECK;
/* Finds the substitutions in the text of a here-document. */
int atoll_shell_read_body(struct atoll_shell_parser *ps, const char *text,
                          size_t n) ATOLL_MUST_CHECK;
bool atoll_shell_is_assignment(const char *text);

/* shell_run.c: adds the command, and those that it runs. words are borrowed. */
int atoll_shell_emit(struct atoll_shell_parser *ps, const struct atoll_shell_word *words,
                     size_t count, unsigned depth) ATOLL_MUST_CHECK;
