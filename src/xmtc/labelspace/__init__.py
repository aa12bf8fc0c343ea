"""Structure over labels: propensities, centroids, clusters, trees and given hierarchies."""
