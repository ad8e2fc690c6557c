from retrieval.short_answer.choose import ShortAnswer, short_answer
