"""Finding things fast: nearest neighbours now; beam search over label trees and merging of lists come with the trees."""
