"""Words that say nothing about an image; they are neither replaced nor proposed (LANCE-R, section 4)."""

from __future__ import annotations

STOP_WORDS = frozenset((
    "a", "about", "above", "across", "after", "against", "all", "along", "also", "am", "among", "an",
    "and", "another", "any", "are", "around", "as", "at", "be", "because", "been", "before", "behind",
    "being", "below", "beneath", "beside", "between", "beyond", "both", "but", "by", "can", "cannot",
    "could", "did", "do", "does", "down", "during", "each", "either", "every", "few", "for", "from",
    "further", "had", "has", "have", "having", "he", "her", "here", "hers", "him", "his", "how",
    "however", "i", "if", "in", "inside", "into", "is", "it", "its", "itself", "just", "last", "least",
    "less", "let", "like", "many", "may", "me", "might", "more", "most", "much", "must", "my", "near",
    "neither", "next", "no", "none", "nor", "not", "now", "of", "off", "often", "on", "once", "one",
    "only", "onto", "or", "other", "others", "our", "out", "outside", "over", "own", "per", "quite",
    "rather", "same", "several", "she", "should", "since", "so", "some", "still", "such", "than",
    "that", "the", "their", "theirs", "them", "then", "there", "therefore", "these", "they", "this",
    "those", "though", "through", "throughout", "thus", "to", "together", "too", "toward", "towards",
    "under", "until", "up", "upon", "us", "very", "was", "we", "well", "were", "what", "when", "where",
    "whether", "which", "while", "who", "whom", "whose", "why", "will", "with", "within", "without",
    "would", "yes", "yet", "you", "your",
))  # fmt: skip
